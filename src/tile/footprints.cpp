#include "tile/footprints.h"

#include <algorithm>

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

    Iteration operator()(const ScoredRegion& region) const {
        const Range context = scored_context(region, tile[1]);
        return {{{tile[0], tile[1], {0, region.space[2]}, context, {0, region.space[4]}}}, {}};
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

/// A store seen digit by digit: an iteration box is a product of digit boxes. One of these fills one box of the
/// buffer, unless its digits step over elements: then it is halved until each part fills a box.
class DigitBoxes {
public:
    DigitBoxes(const Access& target, const Shape& allocation) : allocation_(allocation) {
        const auto map = aligned(target.map, allocation);
        ensure(map.has_value(), "a store crosses the dimensions of its buffer unevenly");
        digits_.map.offset = map->offset;
        for (const auto& digits : map->dims) {
            extents_.emplace_back();
            for (const Atom& a : digits) {
                extents_.back().push_back(a.extent);
                digits_.map.dims.push_back({a});
            }
        }
    }

    [[nodiscard]] std::vector<Box> of(const Box& iteration) const {
        std::vector<Box> products{{}};
        for (std::size_t d = 0; d < iteration.size(); ++d) {
            std::vector<Box> longer;
            for (const Box& prefix : products) {
                for (const Box& part : boxes_of_linear_range(extents_[d], iteration[d])) {
                    longer.push_back(prefix);
                    longer.back().insert(longer.back().end(), part.begin(), part.end());
                }
            }
            products = std::move(longer);
        }
        std::vector<Box> filled;
        for (const Box& product : products) fill(product, filled);
        return filled;
    }

private:
    void fill(const Box& digits, std::vector<Box>& out) const {
        Box box = footprint(digits_.map, digits, allocation_);
        if (volume(box) == distinct_elements(digits_, digits)) {
            out.push_back(std::move(box));
            return;
        }
        std::size_t d = 0;
        while (digits[d].size() == 1 || digits_.map.dims[d][0].stride == 0) ++d;
        const std::int64_t middle = (digits[d].begin + digits[d].end) / 2;
        Box half = digits;
        half[d].end = middle;
        fill(half, out);
        half[d] = {middle, digits[d].end};
        fill(half, out);
    }

    const Shape& allocation_;
    Access digits_;               ///< each digit of the target as a dimension of its own
    std::vector<Shape> extents_;  ///< by dimension of the iteration: of its digits
};

/// The boxes that a store fills: one where the tile ends with whole rows of the buffer, else several.
void add_written(std::vector<Footprint>& list, const Footprint& whole, const Access& target,
                 const Box& iteration, const Shape& allocation) {
    const std::int64_t elements = distinct_elements(target, iteration);
    if (whole.may || volume(whole.box) == elements) return add(list, whole);
    for (Box& box : DigitBoxes(target, allocation).of(iteration)) {
        add(list, {whole.buffer, std::move(box), false});
    }
}

}  // namespace

Footprints footprints(const RegionGraph& graph, const Region& region, const std::array<Range, 4>& tile) {
    Footprints result;
    const Iteration iteration = std::visit(IterationOf{tile}, region.body);
    for (const Use& use : uses(region)) {
        const BufferId buffer(use.access->source);
        const Shape& allocation = graph[buffer].shape;
        if (const auto* attention = std::get_if<AttentionRegion>(&region.body);
            attention != nullptr && use.write && attention->splits > 1) {
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
