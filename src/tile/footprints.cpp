#include "tile/footprints.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace stretto {
namespace {

/// The boxes of the iteration space that a task evaluates, and those that its prologue evaluates.
struct Iteration {
    std::vector<Box> main;
    std::vector<Box> prologue;
};

struct IterationOf {
    const std::array<Range, 4>& tile;

    Iteration operator()(const MapRegion& region) const {
        return {boxes_of_linear_range(region.space, tile[0]), {}};
    }

    Iteration operator()(const ReduceRegion& region) const {
        const auto kept = static_cast<std::ptrdiff_t>(region.kept);
        const Shape outer(region.space.begin(), region.space.begin() + kept);
        auto boxes = boxes_of_linear_range(outer, tile[0]);
        for (Box& box : boxes) {
            for (auto d = static_cast<std::size_t>(kept); d < region.space.size(); ++d) {
                box.push_back({0, region.space[d]});
            }
        }
        return {boxes, {}};
    }

    Iteration operator()(const MatMulRegion& region) const {
        const Range k{0, region.space[3]};
        return {{{tile[0], tile[1], tile[2], k}}, {{tile[0], tile[1], {0, 1}, k}}};
    }

    Iteration operator()(const AttentionRegion& region) const {
        const Range heads{tile[1].begin * region.group, tile[1].end * region.group};
        return {{{tile[0], heads, tile[2], {0, region.space[3]}, {0, region.space[4]}}}, {}};
    }
};

/// The box of one access; data-dependent coordinates widen to their whole range.
Box box_of(const Access& access, Box iteration, const Shape& allocation) {
    IndexMap map = access.map;
    for (const auto& indirect : access.indirect) {
        map.dims.push_back({atom(indirect.extent, indirect.stride)});
        iteration.push_back({0, indirect.extent});
    }
    return footprint(map, iteration, allocation);
}

void add(std::vector<Footprint>& list, Footprint next) {
    if (volume(next.box) == 0) return;
    const bool known = std::any_of(list.begin(), list.end(), [&](const Footprint& old) {
        return old.buffer == next.buffer && old.may == next.may && contains(old.box, next.box);
    });
    if (!known) list.push_back(std::move(next));
}

/// The elements of the iteration box that a store tells apart: dimensions that it ignores count once.
std::int64_t distinct_elements(const Access& target, const Box& iteration) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < iteration.size(); ++d) {
        const auto& digits = target.map.dims[d];
        const bool used =
            std::any_of(digits.begin(), digits.end(), [](const Atom& a) { return a.stride != 0; });
        if (used) count *= iteration[d].size();
    }
    return count;
}

/// Where to cut dimension `d` of the iteration so that the first part ends with a row (of any rank) of the
/// allocation; 0 where no row ends inside.
std::int64_t end_of_row(const Access& target, const Box& iteration, std::size_t d, const Shape& allocation) {
    std::vector<std::int64_t> corner;
    for (const Range& range : iteration) corner.push_back(range.begin);
    const std::optional<std::int64_t> offset = offset_of(target.map, corner);
    if (!offset || target.map.dims[d].back().stride != 1) return 0;
    std::int64_t cut = 0;
    std::int64_t row = 1;
    for (std::size_t a = allocation.size(); a-- > 0;) {
        row *= allocation[a];
        const std::int64_t rest = row - *offset % row;
        const std::int64_t whole = rest == row ? iteration[d].size() / row * row : rest;
        if (row > 1 && whole > 0 && whole < iteration[d].size()) cut = whole;
    }
    return cut;
}

/// The boxes that a store fills. A tile may end in the middle of a row of the allocation (part of a head, say): then
/// whole rows and the remainders are boxes of their own.
void add_written(std::vector<Footprint>& list, const Footprint& whole, const Access& target,
                 const Box& iteration, const Shape& allocation) {
    if (whole.may || volume(whole.box) == distinct_elements(target, iteration)) {
        add(list, whole);
        return;
    }
    for (std::size_t d = iteration.size(); d-- > 0;) {
        const std::int64_t cut = end_of_row(target, iteration, d, allocation);
        if (cut == 0) continue;
        for (const bool first : {true, false}) {
            Box part = iteration;
            (first ? part[d].end : part[d].begin) = iteration[d].begin + cut;
            add_written(list, {whole.buffer, box_of(target, part, allocation), false}, target, part,
                        allocation);
        }
        return;
    }
    ensure(false, "a store of a tile does not fill boxes");
}

}  // namespace

Footprints footprints(const RegionGraph& graph, const Region& region, const std::array<Range, 4>& tile) {
    Footprints result;
    const Iteration iteration = std::visit(IterationOf{tile}, region.body);
    for (const Use& use : uses(region)) {
        const BufferId buffer(use.access->source);
        const Shape& allocation = graph[buffer].shape;
        if (const auto* attention = std::get_if<AttentionRegion>(&region.body);
            attention != nullptr && use.write) {
            const Box& box = iteration.main.front();
            result.writes.push_back({buffer, {tile[3], box[0], box[1], box[2], {0, allocation[4]}}, false});
            continue;
        }
        for (const Box& box : use.in_prologue ? iteration.prologue : iteration.main) {
            Footprint next{buffer, box_of(*use.access, box, allocation), false};
            if (!use.write) {
                add(result.reads, std::move(next));
                continue;
            }
            next.may = !use.access->indirect.empty() || use.access->map.masked();
            add_written(result.writes, next, *use.access, box, allocation);
        }
    }
    return result;
}

}  // namespace stretto
