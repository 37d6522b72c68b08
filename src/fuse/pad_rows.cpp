#include "fuse/pad_rows.h"

#include <algorithm>
#include <optional>

#include "fuse/groups.h"

namespace stretto {
namespace {

/// How a buffer's elements lie after the change.
struct Padded {
    Shape shape;
    IndexMap map;  ///< over the coordinates of the old shape
};

std::optional<Padded> padded_rows(const Buffer& buffer, std::int64_t least) {
    const auto row = std::find_if(buffer.shape.rbegin(), buffer.shape.rend(),
                                  [](std::int64_t extent) { return extent != 1; });
    if (buffer.role != BufferRole::Arena || row == buffer.shape.rend()) return std::nullopt;
    if (*row < least || *row % kMostInGroup == 0 || volume(buffer.shape) <= *row) return std::nullopt;
    Padded padded{buffer.shape, {}};
    std::int64_t& extent = padded.shape[static_cast<std::size_t>(buffer.shape.rend() - row) - 1];
    extent += kMostInGroup - extent % kMostInGroup;
    const Shape strides = row_major_strides(padded.shape);
    for (std::size_t d = 0; d < strides.size(); ++d)
        padded.map.dims.push_back({atom(buffer.shape[d], strides[d])});
    return padded;
}

class Padder {
public:
    Padder(RegionGraph& graph, std::int64_t least) : graph_(graph) {
        for (const Buffer& buffer : graph.buffers) padded_.push_back(padded_rows(buffer, least));
    }

    void run() {
        for (const Region& region : graph_.regions) keep_fixed(region);
        while (keep_for_maps()) {
        }
        for (Region& region : graph_.regions) move(region);
        for (std::size_t b = 0; b < graph_.buffers.size(); ++b) {
            if (padded_[b]) graph_.buffers[b].shape = padded_[b]->shape;
        }
    }

private:
    [[nodiscard]] std::optional<Padded>& of(std::int32_t buffer) {
        return padded_[static_cast<std::size_t>(buffer)];
    }

    /// The access after the change; nothing where no list of digits expresses it.
    [[nodiscard]] std::optional<Access> moved(Access access) {
        const std::optional<Padded>& padded = of(access.source);
        if (!padded) return access;
        for (const Access::Indirect& indirect : access.indirect)
            access.map.dims.push_back({atom(indirect.extent, indirect.stride)});
        auto map = composed(access.map, graph_[BufferId(access.source)].shape, padded->map);
        if (!map) return std::nullopt;
        for (std::size_t i = access.indirect.size(); i-- > 0;) {
            if (map->dims.back().size() != 1) return std::nullopt;
            access.indirect[i].stride = map->dims.back().front().stride;
            map->dims.pop_back();
        }
        access.map = std::move(*map);
        return access;
    }

    void move(Region& region) {
        change_accesses(region, [&](Access& access) { access = *moved(access); });
    }

    /// Buffers stay as they are where the region cannot follow.
    void keep_fixed(const Region& region) {
        for (const Use& use : uses(region)) {
            if (!moved(*use.access)) of(use.access->source).reset();
        }
        // The partial results of attention's splits lie behind each other, whatever `out` says.
        const auto* attention = std::get_if<AttentionRegion>(&region.body);
        if (attention != nullptr && attention->splits > 1) of(attention->out.source).reset();
    }

    /// Keeps the buffers of maps that would move more elements one at a time. Were there any?
    bool keep_for_maps() {
        bool kept = false;
        for (const Region& region : graph_.regions) {
            if (!std::holds_alternative<MapRegion>(region.body) || !touches_padded(region)) continue;
            Region next = region;
            move(next);
            const auto alone = [&](const Region& map) {
                return map_groups(graph_, std::get<MapRegion>(map.body)).alone;
            };
            if (alone(next) <= alone(region)) continue;
            for (const Use& use : uses(region)) of(use.access->source).reset();
            kept = true;
        }
        return kept;
    }

    [[nodiscard]] bool touches_padded(const Region& region) {
        const std::vector<Use> all = uses(region);
        return std::any_of(all.begin(), all.end(), [&](const Use& use) { return of(use.access->source); });
    }

    RegionGraph& graph_;
    std::vector<std::optional<Padded>> padded_;  ///< by buffer
};

}  // namespace

void pad_rows(RegionGraph& graph, std::int64_t least) { Padder(graph, least).run(); }

}  // namespace stretto
