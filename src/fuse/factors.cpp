#include "fuse/factors.h"

#include <algorithm>

namespace stretto {
namespace {

class Splitter {
public:
    explicit Splitter(const Expr& expr) : expr_(expr) {}

    Factors run() {
        split(expr_.root());
        return std::move(result_);
    }

private:
    [[nodiscard]] const ExprNode& node(std::int32_t number) const {
        return expr_.nodes[static_cast<std::size_t>(number)];
    }
    [[nodiscard]] bool is_constant(std::int32_t number) const {
        return node(number).op == Op::Const && is_float(node(number).type);
    }
    [[nodiscard]] bool is_zero(std::int32_t number) const {
        return is_constant(number) && node(number).value == 0;
    }

    void split(std::int32_t number) {
        const ExprNode& n = node(number);
        if (is_constant(number)) {
            result_.constant *= n.value;
        } else if (n.op == Op::Cast && is_float(n.type) && is_float(node(n.args[0]).type)) {
            split(n.args[0]);
        } else if (n.op == Op::Cast && is_float(n.type) && node(n.args[0]).type == DType::Bool) {
            add_condition(extracted(expr_, n.args[0]));
        } else if (n.op == Op::Neg && is_float(n.type)) {
            result_.constant = -result_.constant;
            split(n.args[0]);
        } else if (n.op == Op::Mul && is_float(n.type)) {
            split(n.args[0]);
            split(n.args[1]);
        } else if (n.op == Op::Div && is_float(n.type)) {
            split(n.args[0]);
            divide(n.args[1]);
        } else if (n.op == Op::Select && is_zero(n.args[2])) {
            add_condition(extracted(expr_, n.args[0]));
            split(n.args[1]);
        } else if (n.op == Op::Select && is_zero(n.args[1])) {
            Expr condition = extracted(expr_, n.args[0]);
            condition.apply(Op::Not, {condition.root()});
            add_condition(std::move(condition));
            split(n.args[2]);
        } else {
            result_.others.push_back(extracted(expr_, number));
        }
    }

    void divide(std::int32_t divisor) {
        if (is_constant(divisor) && !is_zero(divisor)) {
            result_.constant /= node(divisor).value;
            return;
        }
        Expr inverse = extracted(expr_, divisor);
        inverse.apply(Op::Recip, {inverse.root()});
        result_.others.push_back(std::move(inverse));
    }

    void add_condition(Expr condition) {
        auto& others = result_.others;
        if (std::find(others.begin(), others.end(), condition) == others.end())
            others.push_back(std::move(condition));
    }

    const Expr& expr_;
    Factors result_;
};

}  // namespace

Factors factors_of(const Expr& expr) { return Splitter(expr).run(); }

Expr product_of(const Factors& factors) {
    Expr out;
    std::int32_t product = out.constant(factors.constant, DType::F32);
    for (const Expr& other : factors.others)
        product = out.apply(Op::Mul, DType::F32, {product, copy_into(out, other, other.root())});
    return folded(out);
}

bool take_out(std::vector<Expr>& from, const std::vector<Expr>& taken) {
    return std::all_of(taken.begin(), taken.end(), [&](const Expr& one) {
        const auto found = std::find(from.begin(), from.end(), one);
        if (found == from.end()) return false;
        from.erase(found);
        return true;
    });
}

}  // namespace stretto
