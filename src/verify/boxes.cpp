#include "verify/boxes.h"

#include <algorithm>
#include <limits>

namespace stretto::verifying {
namespace {

/// The dimension in which boxes are thinnest compared with what they span together; rank for rank 0.
std::size_t sweep_dimension(const std::vector<const Box*>& left, const std::vector<const Box*>& right) {
    const std::size_t rank = left.front()->size();
    std::size_t best = rank;
    double best_density = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < rank; ++d) {
        Range span{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
        double sizes = 0;
        for (const auto* side : {&left, &right}) {
            for (const Box* box : *side) {
                const Range range = (*box)[d];
                span = {std::min(span.begin, range.begin), std::max(span.end, range.end)};
                sizes += static_cast<double>(range.size());
            }
        }
        const double density = sizes / static_cast<double>(span.size());
        if (density < best_density) {
            best_density = density;
            best = d;
        }
    }
    return best;
}

struct Edge {
    Range range;
    std::size_t index;
    bool left;
};

std::vector<Edge> sorted_edges(const std::vector<const Box*>& left, const std::vector<const Box*>& right) {
    const std::size_t dim = sweep_dimension(left, right);
    std::vector<Edge> edges;
    edges.reserve(left.size() + right.size());
    const auto add = [&](const std::vector<const Box*>& side, bool is_left) {
        for (std::size_t i = 0; i < side.size(); ++i) {
            edges.push_back({dim < side[i]->size() ? (*side[i])[dim] : Range{0, 1}, i, is_left});
        }
    };
    add(left, true);
    add(right, false);
    std::stable_sort(edges.begin(), edges.end(),
                     [](const Edge& a, const Edge& b) { return a.range.begin < b.range.begin; });
    return edges;
}

}  // namespace

bool is_empty(const Box& box) {
    return std::any_of(box.begin(), box.end(), [](Range range) { return range.empty(); });
}

Box intersection(const Box& a, const Box& b) {
    Box out(a.size());
    for (std::size_t d = 0; d < a.size(); ++d) {
        out[d] = {std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end)};
    }
    return out;
}

Range byte_hull(const Buffer& buffer, const Box& box) {
    if (is_empty(box)) return {0, 0};
    const Shape strides = row_major_strides(buffer.shape);
    Range hull{0, 1};
    for (std::size_t d = 0; d < box.size(); ++d) {
        hull.begin += box[d].begin * strides[d];
        hull.end += (box[d].end - 1) * strides[d];
    }
    const std::int64_t size = buffer.element_bytes();
    return {hull.begin * size, hull.end * size};
}

std::vector<Range> byte_runs(const Buffer& buffer, const Box& box, std::int64_t base) {
    if (is_empty(box)) return {};
    const Shape strides = row_major_strides(buffer.shape);
    // Dimensions from `suffix` on are whole, so that one run covers them and a range of the dimension before.
    std::size_t suffix = box.size();
    while (suffix > 0 && box[suffix - 1] == Range{0, buffer.shape[suffix - 1]}) --suffix;
    const std::size_t outer = suffix == 0 ? 0 : suffix - 1;
    const std::int64_t run = (suffix == 0 ? volume(buffer.shape) : box[outer].size() * strides[outer]);
    std::vector<std::int64_t> at(outer);
    for (std::size_t d = 0; d < outer; ++d) at[d] = box[d].begin;
    const std::int64_t size = buffer.element_bytes();
    std::vector<Range> runs;
    while (true) {
        std::int64_t first = suffix == 0 ? 0 : box[outer].begin * strides[outer];
        for (std::size_t d = 0; d < outer; ++d) first += at[d] * strides[d];
        runs.push_back({base + first * size, base + (first + run) * size});
        std::size_t d = outer;
        while (d > 0 && ++at[d - 1] == box[d - 1].end) {
            at[d - 1] = box[d - 1].begin;
            --d;
        }
        if (d == 0) return runs;
    }
}

std::vector<Range> common_runs(const std::vector<Range>& a, const std::vector<Range>& b) {
    std::vector<Range> out;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const Range both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
        if (!both.empty()) out.push_back(both);
        a[i].end < b[j].end ? ++i : ++j;
    }
    return out;
}

std::vector<Range> runs_without(const std::vector<Range>& a, const std::vector<Range>& b) {
    std::vector<Range> out;
    std::size_t j = 0;
    for (Range rest : a) {
        while (j < b.size() && b[j].end <= rest.begin) ++j;
        for (std::size_t hole = j; hole < b.size() && b[hole].begin < rest.end; ++hole) {
            if (b[hole].begin > rest.begin) out.push_back({rest.begin, b[hole].begin});
            rest.begin = std::max(rest.begin, b[hole].end);
        }
        if (!rest.empty()) out.push_back(rest);
    }
    return out;
}

void subtract(std::vector<Box>& boxes, const Box& hole) {
    std::vector<Box> out;
    for (Box& box : boxes) {
        if (!intersects(box, hole)) {
            out.push_back(std::move(box));
            continue;
        }
        // Cut one slab off on each side of the hole, dimension by dimension; what is left then lies in the
        // hole.
        for (std::size_t d = 0; d < box.size(); ++d) {
            for (Range side : {Range{box[d].begin, hole[d].begin}, Range{hole[d].end, box[d].end}}) {
                if (side.empty()) continue;
                Box slab = box;
                slab[d] = side;
                out.push_back(std::move(slab));
            }
            box[d] = {std::max(box[d].begin, hole[d].begin), std::min(box[d].end, hole[d].end)};
        }
    }
    boxes = std::move(out);
}

void for_each_intersection(const std::vector<const Box*>& left, const std::vector<const Box*>& right,
                           const std::function<void(std::size_t, std::size_t)>& visit) {
    if (left.empty() || right.empty()) return;
    std::vector<Edge> active_left;
    std::vector<Edge> active_right;
    for (const Edge& edge : sorted_edges(left, right)) {
        std::vector<Edge>& others = edge.left ? active_right : active_left;
        std::erase_if(others, [&](const Edge& other) { return other.range.end <= edge.range.begin; });
        for (const Edge& other : others) {
            const std::size_t i = edge.left ? edge.index : other.index;
            const std::size_t j = edge.left ? other.index : edge.index;
            if (intersects(*left[i], *right[j])) visit(i, j);
        }
        (edge.left ? active_left : active_right).push_back(edge);
    }
}

}  // namespace stretto::verifying
