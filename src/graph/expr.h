#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/index_map.h"

namespace stretto {

/// Operations of a scalar expression. Comparisons and logic yield Bool.
enum class Op : std::uint8_t {
    Const,  ///< `value` (floats) or `integer` (integers and Bool)
    Index,  ///< coordinate number `integer` of the iteration space, I64
    Load,   ///< element of access number `integer`; args are the access's indirect coordinates
    Acc,    ///< accumulator number `integer` of the region that evaluates the expression (its main loop's
            ///< result)
    Stat,   ///< row statistic number `integer` of a MatMul prologue
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Recip,
    Sin,
    Cos,
    Tanh,
    Erf,
    Sigmoid,
    Floor,
    Ceil,
    Bits,  ///< the bit pattern of an F32 as an I32
    Not,
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
    FloorDiv,
    Mod,
    BitAnd,  ///< this and the following four: integers in two's complement
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,  ///< keeps the sign
    Lt,
    Le,
    Eq,
    Ne,
    And,
    Or,
    Select,  ///< args: condition, then, else
    Cast,    ///< converts and rounds to `type`
};

struct OpInfo {
    std::string_view name;
    int arity;  ///< -1 for Load, whose arguments are its indirect coordinates
};
[[nodiscard]] const OpInfo& info(Op op);

/// How an expression reads (or a store writes) one buffer. `map` takes the iteration coordinate; each
/// indirect coordinate c_i, computed on the device, adds c_i * indirect[i].stride and lies in [0,
/// indirect[i].extent) (a negative c_i counts from the end, as in PyTorch).
struct Access {
    struct Indirect {
        std::int64_t stride = 1;
        std::int64_t extent = 1;
        bool operator==(const Indirect&) const = default;
    };
    std::int32_t source = -1;  ///< ValueId in a Graph, BufferId in a RegionGraph
    DType type = DType::F32;   ///< element type of the source
    IndexMap map;
    std::vector<Indirect> indirect;
    bool operator==(const Access&) const = default;
};

struct ExprNode {
    Op op = Op::Const;
    DType type = DType::F32;  ///< type of the result; a narrow float means that the result is rounded to it
    std::vector<std::int32_t> args;  ///< node numbers, all smaller than this node's
    std::int64_t integer = 0;
    double value = 0;
    bool operator==(const ExprNode&) const = default;
};

/// A scalar expression over the coordinates of an iteration space: a DAG in topological order. The last node
/// is the result unless a holder names others. Nodes are unique (hash-consed by `add`).
struct Expr {
    std::vector<ExprNode> nodes;
    std::vector<Access> accesses;

    [[nodiscard]] std::int32_t root() const { return static_cast<std::int32_t>(nodes.size()) - 1; }
    [[nodiscard]] DType type() const { return nodes.back().type; }
    [[nodiscard]] bool empty() const { return nodes.empty(); }

    std::int32_t add(ExprNode node);  ///< Returns an equal node where there is one.
    std::int32_t add_access(Access access);

    // Shorthand for building; `type` of arithmetic follows the first argument.
    std::int32_t constant(double value, DType type);
    std::int32_t index(int dim);
    std::int32_t load(Access access, std::vector<std::int32_t> indirect = {});
    std::int32_t acc(int number, DType type = DType::F32);
    std::int32_t stat(int number);
    std::int32_t apply(Op op, std::vector<std::int32_t> args);
    std::int32_t apply(Op op, DType type, std::vector<std::int32_t> args);
    std::int32_t cast(std::int32_t arg, DType type);

    bool operator==(const Expr&) const = default;
};

/// Copies the sub-DAG of `from` under `node` into `to`; returns its node there.
std::int32_t copy_into(Expr& to, const Expr& from, std::int32_t node);

/// What stands in a rewritten expression `out` for node number `node` of the old one; nothing keeps the node.
using Replacement = std::function<std::optional<std::int32_t>(Expr& out, std::size_t node)>;

/// `expr` with nodes replaced and everything that its result then does not need removed.
[[nodiscard]] Expr rewritten(const Expr& expr, const Replacement& replacement);

/// `expr` with node `root` as its last node and everything that it does not need removed.
[[nodiscard]] Expr extracted(const Expr& expr, std::int32_t root);

/// Folds constants and applies the identities listed in expr_fold.cpp. Keeps the value of every result.
[[nodiscard]] Expr folded(const Expr& expr);

/// Drops the roundings to narrow floats inside the expression (`--numerics=fused`): F32 until the store.
[[nodiscard]] Expr widened(const Expr& expr);

/// Does the result depend on coordinate `dim`, through Index nodes or through the maps of loads?
[[nodiscard]] bool depends_on(const Expr& expr, std::int32_t node, std::size_t dim);

}  // namespace stretto
