#pragma once

#include <functional>
#include <vector>

#include "fuse/region.h"

namespace stretto::verifying {

/// The bytes from the first to the last that a box touches, counted from the start of its buffer.
[[nodiscard]] Range byte_hull(const Buffer& buffer, const Box& box);

/// Exactly the bytes that a box touches, as ascending ranges that do not touch each other, `base` added.
[[nodiscard]] std::vector<Range> byte_runs(const Buffer& buffer, const Box& box, std::int64_t base = 0);

/// Parts of ascending ranges that lie in both lists, or in the first only.
[[nodiscard]] std::vector<Range> common_runs(const std::vector<Range>& a, const std::vector<Range>& b);
[[nodiscard]] std::vector<Range> runs_without(const std::vector<Range>& a, const std::vector<Range>& b);

[[nodiscard]] bool is_empty(const Box& box);
[[nodiscard]] Box intersection(const Box& a, const Box& b);

/// Removes `hole` from every box of `boxes`; the result covers the same points without those of `hole`.
void subtract(std::vector<Box>& boxes, const Box& hole);

/// Calls visit(i, j) for every pair of intersecting boxes, i in `left` and j in `right`, by a sweep along the
/// dimension in which the boxes are thinnest. Boxes are not empty and of one rank.
void for_each_intersection(const std::vector<const Box*>& left, const std::vector<const Box*>& right,
                           const std::function<void(std::size_t, std::size_t)>& visit);

}  // namespace stretto::verifying
