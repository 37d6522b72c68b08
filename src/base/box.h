#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stretto {

using Shape = std::vector<std::int64_t>;

/// Half-open interval [begin, end).
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    [[nodiscard]] std::int64_t size() const { return end - begin; }
    [[nodiscard]] bool empty() const { return end <= begin; }
    bool operator==(const Range&) const = default;
};

[[nodiscard]] inline bool intersects(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }
[[nodiscard]] inline bool contains(Range outer, Range inner) {
    return outer.begin <= inner.begin && inner.end <= outer.end;
}

/// A hyper-rectangle in the coordinates of one allocation, one range per dimension.
using Box = std::vector<Range>;

[[nodiscard]] bool intersects(const Box& a, const Box& b);
[[nodiscard]] bool contains(const Box& outer, const Box& inner);
[[nodiscard]] std::int64_t volume(const Box& box);
[[nodiscard]] Box whole(const Shape& shape);
[[nodiscard]] std::int64_t volume(const Shape& shape);
[[nodiscard]] Shape row_major_strides(const Shape& shape);  ///< In elements.

/// The fewest boxes that cover the row-major positions [range.begin, range.end) of `shape` exactly.
[[nodiscard]] std::vector<Box> boxes_of_linear_range(const Shape& shape, Range range);

}  // namespace stretto
