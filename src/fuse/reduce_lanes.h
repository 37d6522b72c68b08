#pragma once

#include "fuse/region.h"

namespace stretto {

/// How a reduction is dealt to the lanes of a task. Terms that a lane takes as a whole group of neighbours meet in pairs, and
/// then its earlier ones.
struct ReduceLanes {
    enum class Way : std::uint8_t {
        /// A warp has one result. Its lane l takes groups of `vector` neighbouring terms, group l, l + 32, …; the lanes meet
        /// in a butterfly.
        Along,
        /// A worker's warps have one result together, of many terms, or of few results. Of groups of `vector` neighbouring terms,
        /// lane l of all lanes takes group l, l + lanes, …; the lanes of each warp meet in a butterfly, then the warps in order.
        Together,
        /// A lane has `vector` neighbouring results, of few terms each or of as many as the device knows, the same for all of
        /// them. A result has kReduceSums sums, to which the terms that count are dealt in turn; they meet in a butterfly.
        Own,
        /// A lane has one of many results, whose few terms it takes in order, in groups of `vector` neighbours.
        Alone,
        /// Neighbouring results lie together, terms do not, or all results take the same terms: a task has
        /// abi::kReduceColumns results at a time. Its warps have
        /// warps * vector shares of the terms: share s takes terms s, s + shares, …; shares are added up in order.
        Columns,
    };
    Way way = Way::Along;
    std::int64_t vector = 1;  ///< neighbours that a lane loads together: terms, or results
    std::size_t dim = 0;      ///< of the region's space: that of the neighbours
};

inline constexpr std::int32_t kReduceSums = 4;

/// That of the first reduction, for all.
[[nodiscard]] ReduceLanes reduce_lanes(const ReduceRegion& region);

/// Results of each reduction that a task's lanes take at one time, on workers of so many warps.
[[nodiscard]] std::int64_t results_at_once(const ReduceRegion& region, std::int64_t warps);

}  // namespace stretto
