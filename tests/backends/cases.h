#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuse/region.h"
#include "support/memory.h"

namespace stretto {

/// One small program that every backend must run right.
struct Case {
    std::string name;  ///< letters, digits and underscores
    RegionGraph graph;
    /// Largest error of an element: `relative` of its own size plus `absolute` of the buffer's largest element.
    double relative = 0;
    double absolute = 0;
    std::function<void(BufferMemory&)> prepare;  ///< sets inputs that must not be random; may be empty
};

/// Builds the regions of a case.
class CaseBuilder {
public:
    BufferId buffer(BufferRole role, DType type, Shape shape);
    /// All elements of a buffer, over its own coordinates.
    [[nodiscard]] Access whole(BufferId buffer) const;
    /// A buffer through a map.
    [[nodiscard]] Access through(BufferId buffer, IndexMap map) const;
    void region(RegionBody body);
    [[nodiscard]] RegionGraph finish() { return std::move(graph_); }

private:
    RegionGraph graph_;
};

/// Rows of 1 and then terms that are a quarter of its unit in the last place, of F32.
[[nodiscard]] Elements small_terms_beside_a_large_one(std::int64_t rows, std::int64_t terms);
[[nodiscard]] double epsilon(DType type);             ///< Half a unit in the last place, relative.
[[nodiscard]] std::string sizes(const Shape& shape);  ///< As a part of a name: "2x3".

// The conformance suite, by kind of region.
[[nodiscard]] std::vector<Case> map_cases();
[[nodiscard]] std::vector<Case> reduce_cases();
[[nodiscard]] std::vector<Case> matmul_cases();
[[nodiscard]] std::vector<Case> attention_cases();
[[nodiscard]] std::vector<Case> scored_cases();
[[nodiscard]] std::vector<Case> chain_cases();

[[nodiscard]] std::vector<Case> all_cases();

}  // namespace stretto
