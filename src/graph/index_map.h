#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/box.h"

namespace stretto {

/// One digit of a mixed-radix coordinate: digit value x in [0, extent) adds x * stride elements. Outside [lo,
/// hi) the access is masked: memory is not touched and the load yields zero.
struct Atom {
    std::int64_t extent = 1;
    std::int64_t stride = 0;
    std::int64_t lo = 0;
    std::int64_t hi = 1;

    [[nodiscard]] bool masked() const { return lo > 0 || hi < extent; }
    bool operator==(const Atom&) const = default;
};

[[nodiscard]] inline Atom atom(std::int64_t extent, std::int64_t stride) {
    return {extent, stride, 0, extent};
}

/// Maps a coordinate of an iteration space to an element offset in one allocation:
///   offset + sum over dimensions, over the dimension's digits, of digit * stride.
/// Each dimension is a list of digits, the outermost first (the hierarchical layouts of CuTe, CUTLASS
/// docs/media/cute/01_layout.md), so that views compose: merging dimensions concatenates digits, splitting
/// one splits digits, broadcasting is stride 0.
struct IndexMap {
    std::vector<std::vector<Atom>> dims;
    std::int64_t offset = 0;

    [[nodiscard]] std::size_t rank() const { return dims.size(); }
    [[nodiscard]] Shape shape() const;  ///< Extents of the iteration space.
    [[nodiscard]] bool masked() const;
    bool operator==(const IndexMap&) const = default;
};

/// Row-major identity over `shape`.
[[nodiscard]] IndexMap identity_map(const Shape& shape);

/// Merges neighbouring digits that act as one and drops digits of extent 1 (a dimension keeps at least one
/// digit).
[[nodiscard]] IndexMap normalized(IndexMap map);

// Views: each returns the map of the view, as a map of the same allocation. Arguments are in range.
[[nodiscard]] IndexMap permuted(const IndexMap& map, const std::vector<int>& order);
[[nodiscard]] IndexMap inserted_dim(const IndexMap& map, std::size_t at,
                                    std::int64_t extent);                 ///< Broadcast.
[[nodiscard]] IndexMap removed_dim(const IndexMap& map, std::size_t at);  ///< Requires extent 1.

// These are empty where no list of digits expresses the view; the caller then materializes a copy.
[[nodiscard]] std::optional<IndexMap> reshaped(const IndexMap& map, const Shape& shape);
[[nodiscard]] std::optional<IndexMap> sliced(const IndexMap& map, std::size_t dim, std::int64_t begin,
                                             std::int64_t count, std::int64_t step = 1);
/// Adds `before`/`after` masked positions to a dimension.
[[nodiscard]] std::optional<IndexMap> padded(const IndexMap& map, std::size_t dim, std::int64_t before,
                                             std::int64_t after);

/// The map of `inner` (a map over the coordinates of a row-major value of shape `middle`) seen through
/// `outer` (a map into that value): coordinates of outer -> allocation of inner.
[[nodiscard]] std::optional<IndexMap> composed(const IndexMap& outer, const Shape& middle,
                                               const IndexMap& inner);

/// The coordinate of dimension `dim` of a row-major value of shape `middle`, seen through `outer`, as digits
/// over outer's iteration space with unit weight: offset + sum digit * stride is the coordinate. Used where
/// an expression over the middle value's coordinates is inlined behind a view.
[[nodiscard]] std::optional<IndexMap> coordinate_map(const IndexMap& outer, const Shape& middle,
                                                     std::size_t dim);

/// Does every coordinate have an element of its own? False where that does not show, or where the map is masked.
[[nodiscard]] bool is_injective(const IndexMap& map);

/// Element offset of one coordinate, or nothing where the access is masked.
[[nodiscard]] std::optional<std::int64_t> offset_of(const IndexMap& map, const std::vector<std::int64_t>& at);

/// The same map with digits split so that each moves along one dimension of a row-major allocation; empty where a
/// digit crosses dimensions unevenly.
[[nodiscard]] std::optional<IndexMap> aligned(const IndexMap& map, const Shape& allocation);

/// The smallest box, in the coordinates of a row-major allocation of shape `allocation`, that covers what
/// `map` touches when its iteration space is restricted to `tile`. Exact where no digit is cut in the middle.
[[nodiscard]] Box footprint(const IndexMap& map, const Box& tile, const Shape& allocation);

}  // namespace stretto
