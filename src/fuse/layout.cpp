#include "fuse/layout.h"

#include <algorithm>
#include <map>
#include <optional>

#include "fuse/scored.h"

namespace stretto {
namespace {

/// An intermediate as [batch, columns, rows].
struct Columns {
    std::int64_t batch = 1;
    std::int64_t columns = 1;
    std::int64_t rows = 1;
};

bool is(const std::vector<Atom>& dim, std::int64_t extent, std::int64_t stride) {
    return dim.size() == 1 && (extent == 1 || dim.front() == atom(extent, stride));
}

/// The whole buffer, written column by column; nothing where the store is another.
std::optional<Columns> by_columns(const ScoredRegion& region, const Store& store, const Buffer& buffer) {
    const auto& [batch, rows, columns, context, depth] = region.space;
    const auto& map = store.target.map;
    const bool plain = buffer.role == BufferRole::Arena && store.indices.empty() && map.offset == 0 &&
                       volume(buffer.shape) == batch * rows * columns && rows > 1 && columns > 1;
    if (!plain || !is(map.dims[0], batch, rows * columns) || !is(map.dims[kScoredRow], rows, 1) ||
        !is(map.dims[kScoredColumn], columns, rows))
        return std::nullopt;
    return Columns{batch, columns, rows};
}

/// The access after rows and columns of its buffer have been exchanged.
std::optional<Access> turned(const Access& access, const Columns& c) {
    const IndexMap inner{
        {{atom(c.batch, c.columns * c.rows)}, {atom(c.columns, 1)}, {atom(c.rows, c.columns)}}, 0};
    auto map = composed(access.map, {c.batch, c.columns, c.rows}, inner);
    if (!map || !access.indirect.empty()) return std::nullopt;
    return Access{access.source, access.type, std::move(*map), {}};
}

}  // namespace

void lay_out_rows(RegionGraph& graph) {
    std::map<std::int32_t, Columns> found;
    for (const Region& region : graph.regions) {
        const auto* scored = std::get_if<ScoredRegion>(&region.body);
        if (scored == nullptr) continue;
        for (const Store& store : scored->stores) {
            const auto buffer = static_cast<std::size_t>(store.target.source);
            if (const auto columns = by_columns(*scored, store, graph.buffers[buffer]))
                found[store.target.source] = *columns;
        }
    }
    for (const Region& region : graph.regions) {
        for (const Use& use : uses(region)) {
            const auto entry = found.find(use.access->source);
            if (entry != found.end() && !turned(*use.access, entry->second)) found.erase(entry);
        }
    }
    for (Region& region : graph.regions) {
        change_accesses(region, [&](Access& access) {
            const auto entry = found.find(access.source);
            if (entry != found.end()) access = *turned(access, entry->second);
        });
    }
    for (const auto& [buffer, c] : found)
        graph.buffers[static_cast<std::size_t>(buffer)].shape = {c.batch, c.rows, c.columns};
}

}  // namespace stretto
