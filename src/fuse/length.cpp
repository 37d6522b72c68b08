#include "fuse/length.h"

namespace stretto {
namespace {

/// A bias at or below this hides a row: exp(bias - max) is zero in F32 for any finite score of a visible row.
constexpr double kHidden = -1e30;
constexpr std::size_t kContextDim = 3;

class BoundFinder {
public:
    BoundFinder(const Expr& mask, const Shape& extents) : mask_(mask), extents_(extents) {}

    LengthBound run() {
        const std::int32_t node = bound(mask_.root());
        if (node < 0) return {};
        return {folded(extracted(out_, node)), exact_};
    }

private:
    [[nodiscard]] const ExprNode& at(std::int32_t node) const {
        return mask_.nodes[static_cast<std::size_t>(node)];
    }

    /// Through integer conversions that keep the order of coordinates.
    [[nodiscard]] std::int32_t stripped(std::int32_t node) const {
        while (at(node).op == Op::Cast && !is_float(at(node).type) && at(node).type != DType::Bool &&
               !is_float(at(at(node).args[0]).type)) {
            node = at(node).args[0];
        }
        return node;
    }

    [[nodiscard]] bool is_context(std::int32_t node) const {
        const ExprNode& n = at(stripped(node));
        return n.op == Op::Index && n.integer == static_cast<std::int64_t>(kContextDim);
    }

    [[nodiscard]] bool is_row_scalar(std::int32_t node) const {
        for (std::size_t d = 1; d < 4; ++d) {
            if (extents_[d] > 1 && depends_on(mask_, node, d)) return false;
        }
        return !is_float(at(node).type);
    }

    /// Node of out_ for an exclusive bound on s where `node` is true (or, for a bias, not hiding); -1 for none.
    std::int32_t bound(std::int32_t node) {
        const ExprNode& n = at(node);
        switch (n.op) {
            case Op::Le:
                if (!is_context(n.args[0]) || !is_row_scalar(n.args[1])) return -1;
                return out_.apply(Op::Add, {as_integer(n.args[1]), out_.constant(1, DType::I64)});
            case Op::Lt:
                if (!is_context(n.args[0]) || !is_row_scalar(n.args[1])) return -1;
                return as_integer(n.args[1]);
            case Op::And: {
                const std::int32_t a = bound(n.args[0]);
                const std::int32_t b = bound(n.args[1]);
                if (a < 0 || b < 0) exact_ = false;
                if (a < 0 || b < 0) return a < 0 ? b : a;
                return out_.apply(Op::Min, {a, b});
            }
            case Op::Cast:
                // As a bias, a condition adds 1 or 0 and hides nothing.
                return is_float(n.type) == is_float(at(n.args[0]).type) ? bound(n.args[0]) : -1;
            case Op::Select: {
                const ExprNode& otherwise = at(n.args[2]);
                const bool hides =
                    otherwise.op == Op::Const && is_float(otherwise.type) && otherwise.value <= kHidden;
                const ExprNode& then = at(n.args[1]);
                if (then.op != Op::Const || then.value != 0) exact_ = false;
                return hides ? bound(n.args[0]) : -1;
            }
            default:
                return -1;
        }
    }

    std::int32_t as_integer(std::int32_t node) { return out_.cast(copy_into(out_, mask_, node), DType::I64); }

    const Expr& mask_;
    const Shape& extents_;
    Expr out_;
    bool exact_ = true;
};

}  // namespace

LengthBound length_bound(const Expr& mask, const Shape& extents) { return BoundFinder(mask, extents).run(); }

}  // namespace stretto
