#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/reference/access.h"
#include "backends/reference/lanes.h"
#include "graph/expr.h"

namespace stretto {

/// An expression compiled into a list of steps that each work on a whole block of lanes.
class CompiledExpr {
public:
    explicit CompiledExpr(const Expr& expr);

    /// The domain in which the result is given.
    [[nodiscard]] Domain domain() const { return domain_of(type_); }
    [[nodiscard]] DType type() const { return type_; }

    /// Evaluates the block and returns the result's lanes, in `domain()`. They live in the workspace's registers until
    /// the next evaluation there.
    const void* run(const Block& block, Buffers buffers, Workspace& workspace) const;

    /// After `run`: lanes of node `node`, which is of an integer type.
    [[nodiscard]] const std::int64_t* integers(std::int32_t node, Workspace& workspace) const;

    /// The result for a single coordinate.
    [[nodiscard]] double scalar(const Block& block, Buffers buffers, Workspace& workspace) const;

private:
    struct Step {
        Op op = Op::Const;
        Domain domain = Domain::F32;  ///< of the operands; of the result where it has none
        DType type = DType::F32;      ///< of the result
        std::int32_t out = 0;
        std::vector<std::int32_t> in;
        std::int64_t integer = 0;
        double value = 0;
    };

    [[nodiscard]] std::int32_t converted(std::int32_t node, Domain domain);
    void load(const Step& step, const Block& block, Buffers buffers, Workspace& workspace,
              std::byte* registers) const;
    /// Does the step if it has no operands to compute with (constants, coordinates, loads, accumulators, statistics).
    bool leaf(const Step& step, const Block& block, Buffers buffers, Workspace& workspace,
              std::byte* registers) const;
    void inner(const Step& step, std::int32_t lanes, std::byte* registers) const;

    DType type_;
    std::vector<Step> steps_;
    std::vector<Domain> domains_;            ///< by register
    std::vector<std::int32_t> register_of_;  ///< by node
    std::vector<CompiledAccess> accesses_;
};

}  // namespace stretto
