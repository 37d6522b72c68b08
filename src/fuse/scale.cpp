#include "fuse/scale.h"

#include <vector>

namespace stretto {
namespace {

/// Splits one node after the other; a part is a node of the result's `rest` or `scale`, or -1 where it is one.
class Splitter {
public:
    explicit Splitter(const Expr& a) : a_(a) {}

    std::optional<ScaledLeft> run() {
        const Parts parts = split(a_.root());
        if (parts.rest < 0 || parts.scale < 0) return std::nullopt;
        return ScaledLeft{extracted(result_.rest, parts.rest), extracted(result_.scale, parts.scale)};
    }

private:
    struct Parts {
        std::int32_t rest = -1;
        std::int32_t scale = -1;
    };

    Parts split(std::int32_t number) {
        const ExprNode& node = a_.nodes[static_cast<std::size_t>(number)];
        if (is_scale(number)) return {-1, copy_into(result_.scale, a_, number)};
        const bool product = (node.op == Op::Mul || node.op == Op::Div) && node.type == DType::F32;
        if (!product || !holds_scale(number)) return {copy_into(result_.rest, a_, number), -1};
        const Parts left = split(node.args[0]);
        const Parts right = split(node.args[1]);
        return {combined(result_.rest, node.op, left.rest, right.rest),
                combined(result_.scale, node.op, left.scale, right.scale)};
    }

    static std::int32_t combined(Expr& out, Op op, std::int32_t left, std::int32_t right) {
        if (right < 0) return left;
        if (left < 0 && op == Op::Mul) return right;
        if (left < 0) left = out.constant(1, DType::F32);
        return out.apply(op, DType::F32, {left, right});
    }

    /// Is the node made of statistics and constants, with at least one statistic, in F32?
    [[nodiscard]] bool is_scale(std::int32_t number) const {
        bool stat = false;
        return a_.nodes[static_cast<std::size_t>(number)].type == DType::F32 && only_stats(number, stat) &&
               stat;
    }

    bool only_stats(std::int32_t number, bool& stat) const {
        const ExprNode& node = a_.nodes[static_cast<std::size_t>(number)];
        if (node.op == Op::Stat) stat = true;
        if (node.op == Op::Load || node.op == Op::Index || node.op == Op::Acc) return false;
        for (std::int32_t arg : node.args) {
            if (!only_stats(arg, stat)) return false;
        }
        return true;
    }

    /// Is there a factor to take out, through products and quotients from this node on?
    [[nodiscard]] bool holds_scale(std::int32_t number) const {
        const ExprNode& node = a_.nodes[static_cast<std::size_t>(number)];
        if (is_scale(number)) return true;
        if ((node.op != Op::Mul && node.op != Op::Div) || node.type != DType::F32) return false;
        return holds_scale(node.args[0]) || holds_scale(node.args[1]);
    }

    const Expr& a_;
    ScaledLeft result_;
};

}  // namespace

std::optional<ScaledLeft> split_scale(const Expr& a) { return Splitter(a).run(); }

Expr with_scale(const Expr& expr, const Expr& scale) {
    return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        const ExprNode& node = expr.nodes[i];
        if (node.op != Op::Acc) return std::nullopt;
        const std::int32_t sum = out.acc(static_cast<int>(node.integer), node.type);
        return out.apply(Op::Mul, {sum, copy_into(out, scale, scale.root())});
    });
}

}  // namespace stretto
