#pragma once

#include <optional>

#include "abi/abi.h"
#include "base/machine.h"
#include "fuse/expand.h"
#include "fuse/region.h"

namespace stretto {

/// Dimensions of a scored region's space (b, r, n, c, e).
inline constexpr std::size_t kScoredRow = 1;
inline constexpr std::size_t kScoredColumn = 2;
inline constexpr std::size_t kScoredContext = 3;
inline constexpr std::size_t kScoredDepth = 4;

/// A scored region without its stores.
struct ScoredDraft {
    ScoredRegion region;
    IndexMap view;  ///< from the region's coordinates to the dense value that is its Acc(0)
};

/// The contraction or reduction `id` as a sum whose weights come from scores. Scores are the contractions that `expansion`
/// leaves out: Way::Inline in `decisions`. Nothing where the sum is of another form: scores of other types or depths, a
/// view of one that mixes rows and context, operands that are not plain, or no tile that fits the machine.
[[nodiscard]] std::optional<ScoredDraft> scored_draft(const Graph& graph, const Decisions& decisions,
                                                      const Expansion& expansion, ValueId id,
                                                      const Machine& machine);

/// Widest factor, and deepest score, of such a region.
inline constexpr std::int64_t kMostScoredColumns = 128;

[[nodiscard]] abi::ScoredShape scored_shape(const ScoredRegion& region);

/// Sets the tile of the region: that of fewest rows, which makes most tasks, whose stages fit into the machine's shared memory.
/// False where none fits, or where the fragments of scores and sums would leave a thread too few registers.
[[nodiscard]] bool cut_scored(ScoredRegion& region, const Machine& machine);

/// The score whose right side the factor is itself, column for element: both are staged once.
[[nodiscard]] std::optional<std::size_t> staged_as(const ScoredRegion& region, const Access& factor);

/// The same over coordinates of a scored region with one column.
[[nodiscard]] Access one_column(Access access);
[[nodiscard]] Expr one_column(Expr expr);

/// A factor as the right side of a score, of one column: its columns are the elements that are multiplied.
[[nodiscard]] Access as_right_side(Access factor);

/// Are the scores the same for all pairs of a row and a position?
[[nodiscard]] bool is_same(const Score& a, const Score& b);

}  // namespace stretto
