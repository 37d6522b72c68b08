#include <cmath>
#include <numbers>
#include <utility>

#include "base/rounding.h"
#include "graph/promote.h"
#include "import/call.h"

namespace stretto {
namespace {

using Id = std::int32_t;

/// An element's value while it is being written down: operands in x, arithmetic in the result's compute type.
struct Formula {
    Call& call;
    Expr& e;
    DType type;  ///< in which arithmetic is done: F32, F64 or I64
    std::vector<Id> x;

    Id number(double value) const { return e.constant(value, type); }
    Id op(Op what, std::vector<Id> args) const { return apply_typed(e, what, type, std::move(args)); }
    Id test(Op what, std::vector<Id> args) const {
        return apply_typed(e, what, DType::Bool, std::move(args));
    }
    Id add(Id a, Id b) const { return op(Op::Add, {a, b}); }
    Id mul(Id a, Id b) const { return op(Op::Mul, {a, b}); }
    /// `value` times the scalar argument `name`, 1 where it is not given.
    Id scaled(Id value, std::string_view name) const {
        const double factor = call.number(name, 1);
        return factor == 1 ? value : mul(value, number(factor));
    }
};

struct Row {
    std::string_view op;
    std::vector<std::string_view> operands;
    Id (*value)(const Formula&);
    /// Does PyTorch round a number to the tensor's type first? In most arithmetic a number keeps its precision.
    bool rounds_numbers = false;
};

template <Op op>
Id plain(const Formula& f) {
    return f.op(op, f.x);
}

template <Op op>
Id test(const Formula& f) {
    return f.test(op, f.x);
}

template <Op op>
Id swapped_test(const Formula& f) {
    return f.test(op, {f.x[1], f.x[0]});
}

Id add(const Formula& f) { return f.add(f.x[0], f.scaled(f.x[1], "alpha")); }
Id sub(const Formula& f) { return f.op(Op::Sub, {f.x[0], f.scaled(f.x[1], "alpha")}); }
Id rsub(const Formula& f) { return f.op(Op::Sub, {f.x[1], f.scaled(f.x[0], "alpha")}); }

Id truncated(const Formula& f, Id value) {
    const Id negative = f.test(Op::Lt, {value, f.number(0)});
    return f.op(Op::Select, {negative, f.op(Op::Ceil, {value}), f.op(Op::Floor, {value})});
}

Id div(const Formula& f) {
    const std::string mode = f.call.text("rounding_mode", "");
    if (mode == "floor") return f.op(Op::FloorDiv, f.x);
    if (mode.empty()) return f.op(Op::Div, f.x);
    if (f.type == DType::I64) f.call.fail("integer division that rounds toward zero is not supported");
    return truncated(f, f.op(Op::Div, f.x));
}

Id pow(const Formula& f) {
    if (!f.call.is_tensor("exponent")) {
        const double exponent = f.call.number("exponent");
        if (exponent == 1) return f.x[0];
        if (exponent == 2) return f.mul(f.x[0], f.x[0]);
        if (exponent == 3) return f.mul(f.mul(f.x[0], f.x[0]), f.x[0]);
        if (exponent == 0.5) return f.op(Op::Sqrt, {f.x[0]});
        if (exponent == -0.5) return f.op(Op::Rsqrt, {f.x[0]});
        if (exponent == -1) return f.op(Op::Recip, {f.x[0]});
    }
    return f.op(Op::Pow, f.x);
}

Id square(const Formula& f) { return f.mul(f.x[0], f.x[0]); }
Id silu(const Formula& f) { return f.mul(f.x[0], f.op(Op::Sigmoid, {f.x[0]})); }

/// grad * s * (1 + x * (1 - s)), with s = sigmoid(x)
Id silu_backward(const Formula& f) {
    const Id s = f.op(Op::Sigmoid, {f.x[1]});
    const Id rest = f.op(Op::Sub, {f.number(1), s});
    return f.mul(f.x[0], f.mul(s, f.add(f.number(1), f.mul(f.x[1], rest))));
}

Id relu(const Formula& f) { return f.op(Op::Max, {f.x[0], f.number(0)}); }

Id gelu(const Formula& f) {
    const Id x = f.x[0];
    Id inner = 0;
    if (f.call.text("approximate", "none") == "tanh") {
        const Id cube = f.mul(f.mul(x, x), x);
        const Id sum = f.add(x, f.mul(cube, f.number(0.044715)));
        inner = f.op(Op::Tanh, {f.mul(sum, f.number(std::sqrt(2 / std::numbers::pi)))});
    } else {
        inner = f.op(Op::Erf, {f.mul(x, f.number(std::numbers::sqrt2 / 2))});
    }
    return f.mul(f.mul(x, f.number(0.5)), f.add(inner, f.number(1)));
}

Id leaky_relu(const Formula& f) {
    const Id positive = f.test(Op::Lt, {f.number(0), f.x[0]});
    return f.op(Op::Select,
                {positive, f.x[0], f.mul(f.x[0], f.number(f.call.number("negative_slope", 0.01)))});
}

Id log1p(const Formula& f) { return f.op(Op::Log, {f.add(f.x[0], f.number(1))}); }
Id exp2(const Formula& f) { return f.op(Op::Exp, {f.mul(f.x[0], f.number(std::numbers::ln2))}); }
Id log2(const Formula& f) { return f.mul(f.op(Op::Log, {f.x[0]}), f.number(std::numbers::log2e)); }

Id softplus(const Formula& f) {
    const double beta = f.call.number("beta", 1);
    const Id scaled = f.mul(f.x[0], f.number(beta));
    const Id soft =
        f.op(Op::Div, {f.op(Op::Log, {f.add(f.op(Op::Exp, {scaled}), f.number(1))}), f.number(beta)});
    const Id linear = f.test(Op::Lt, {f.number(f.call.number("threshold", 20)), scaled});
    return f.op(Op::Select, {linear, f.x[0], soft});
}

Id where(const Formula& f) { return f.op(Op::Select, f.x); }
Id masked_fill(const Formula& f) { return f.op(Op::Select, {f.x[1], f.x[2], f.x[0]}); }

/// The first operand, then the bounds that are given.
Id clamp(const Formula& f) {
    Id value = f.x[0];
    std::size_t next = 1;
    if (f.call.has("min")) value = f.op(Op::Max, {value, f.x[next++]});
    if (f.call.has("max")) value = f.op(Op::Min, {value, f.x[next]});
    return value;
}

template <Op op>
Id logic(const Formula& f) {
    return f.test(op, f.x);
}

/// The logic of truth values, or of the bits of integers.
template <Op of_bools, Op of_bits>
Id bitwise(const Formula& f) {
    return f.call.dtype() == DType::Bool ? f.test(of_bools, f.x) : f.op(of_bits, f.x);
}

Id bitwise_not(const Formula& f) {
    if (f.call.dtype() == DType::Bool) return f.test(Op::Not, f.x);
    return f.op(Op::BitXor, {f.x[0], f.number(-1)});
}

Id logical_xor(const Formula& f) {
    return f.test(Op::Ne, {f.e.cast(f.x[0], DType::Bool), f.e.cast(f.x[1], DType::Bool)});
}

Id sign(const Formula& f) {
    const Id zero = f.number(0);
    const Id negative = f.op(Op::Select, {f.test(Op::Lt, {f.x[0], zero}), f.number(-1), zero});
    return f.op(Op::Select, {f.test(Op::Lt, {zero, f.x[0]}), f.number(1), negative});
}

/// The rest of a division toward zero: it has the sign of what is divided.
Id fmod(const Formula& f) {
    const auto size = [&](Id x) { return f.op(Op::Abs, {x}); };
    const Id rest = f.op(Op::Mod, {size(f.x[0]), size(f.x[1])});
    return f.op(Op::Select, {f.test(Op::Lt, {f.x[0], f.number(0)}), f.op(Op::Neg, {rest}), rest});
}

Id isnan(const Formula& f) { return f.test(Op::Ne, {f.x[0], f.x[0]}); }

/// Keeps the elements on one side of a diagonal.
template <bool lower>
Id triangle(const Formula& f) {
    const int rank = static_cast<int>(f.call.shape().size());
    const Id diagonal = f.e.constant(f.call.number("diagonal", 0), DType::I64);
    const Id limit = apply_typed(f.e, Op::Add, DType::I64, {f.e.index(rank - 2), diagonal});
    const Id column = f.e.index(rank - 1);
    const Id keep = lower ? f.test(Op::Le, {column, limit}) : f.test(Op::Le, {limit, column});
    return f.op(Op::Select, {keep, f.x[0], f.number(0)});
}

const std::vector<Row>& rows() {
    static const std::vector<Row> table = {
        {"aten.add", {"self", "other"}, add},
        {"aten.sub", {"self", "other"}, sub},
        {"aten.rsub", {"self", "other"}, rsub},
        {"aten.mul", {"self", "other"}, plain<Op::Mul>},
        {"aten.div", {"self", "other"}, div},
        {"aten.true_divide", {"self", "other"}, plain<Op::Div>},
        {"aten.floor_divide", {"self", "other"}, plain<Op::FloorDiv>},
        {"aten.remainder", {"self", "other"}, plain<Op::Mod>, true},
        {"aten.fmod", {"self", "other"}, fmod, true},
        {"aten.pow", {"self", "exponent"}, pow},
        {"aten.square", {"self"}, square},
        {"aten.neg", {"self"}, plain<Op::Neg>},
        {"aten.abs", {"self"}, plain<Op::Abs>},
        {"aten.exp", {"self"}, plain<Op::Exp>},
        {"aten.exp2", {"self"}, exp2},
        {"aten.log", {"self"}, plain<Op::Log>},
        {"aten.log2", {"self"}, log2},
        {"aten.log1p", {"self"}, log1p},
        {"aten.sqrt", {"self"}, plain<Op::Sqrt>},
        {"aten.rsqrt", {"self"}, plain<Op::Rsqrt>},
        {"aten.reciprocal", {"self"}, plain<Op::Recip>},
        {"aten.sin", {"self"}, plain<Op::Sin>},
        {"aten.cos", {"self"}, plain<Op::Cos>},
        {"aten.tanh", {"self"}, plain<Op::Tanh>},
        {"aten.erf", {"self"}, plain<Op::Erf>},
        {"aten.sigmoid", {"self"}, plain<Op::Sigmoid>},
        {"aten.floor", {"self"}, plain<Op::Floor>},
        {"aten.ceil", {"self"}, plain<Op::Ceil>},
        {"aten.silu", {"self"}, silu},
        {"aten.silu_backward", {"grad_output", "self"}, silu_backward},
        {"aten.gelu", {"self"}, gelu},
        {"aten.relu", {"self"}, relu},
        {"aten.leaky_relu", {"self"}, leaky_relu},
        {"aten.softplus", {"self"}, softplus},
        {"aten.minimum", {"self", "other"}, plain<Op::Min>},
        {"aten.maximum", {"self", "other"}, plain<Op::Max>},
        {"aten.clamp", {"self", "min", "max"}, clamp},
        {"aten.clamp_min", {"self", "min"}, clamp},
        {"aten.clamp_max", {"self", "max"}, clamp},
        {"aten.where", {"condition", "self", "other"}, where},
        {"aten.masked_fill", {"self", "mask", "value"}, masked_fill},
        {"aten.eq", {"self", "other"}, test<Op::Eq>, true},
        {"aten.ne", {"self", "other"}, test<Op::Ne>, true},
        {"aten.lt", {"self", "other"}, test<Op::Lt>, true},
        {"aten.le", {"self", "other"}, test<Op::Le>, true},
        {"aten.gt", {"self", "other"}, swapped_test<Op::Lt>, true},
        {"aten.ge", {"self", "other"}, swapped_test<Op::Le>, true},
        {"aten.logical_not", {"self"}, logic<Op::Not>},
        {"aten.logical_and", {"self", "other"}, logic<Op::And>},
        {"aten.logical_or", {"self", "other"}, logic<Op::Or>},
        {"aten.logical_xor", {"self", "other"}, logical_xor},
        {"aten.bitwise_not", {"self"}, bitwise_not},
        {"aten.bitwise_and", {"self", "other"}, bitwise<Op::And, Op::BitAnd>},
        {"aten.bitwise_or", {"self", "other"}, bitwise<Op::Or, Op::BitOr>},
        {"aten.bitwise_xor", {"self", "other"}, bitwise<Op::Ne, Op::BitXor>},
        {"aten.bitwise_left_shift", {"self", "other"}, plain<Op::ShiftLeft>},
        {"aten.bitwise_right_shift", {"self", "other"}, plain<Op::ShiftRight>},
        {"aten.__and__", {"self", "other"}, bitwise<Op::And, Op::BitAnd>},
        {"aten.__or__", {"self", "other"}, bitwise<Op::Or, Op::BitOr>},
        {"aten.__xor__", {"self", "other"}, bitwise<Op::Ne, Op::BitXor>},
        {"aten.__lshift__", {"self", "other"}, plain<Op::ShiftLeft>},
        {"aten.__rshift__", {"self", "other"}, plain<Op::ShiftRight>},
        {"aten.sign", {"self"}, sign},
        {"aten.isnan", {"self"}, isnan},
        {"aten.tril", {"self"}, triangle<true>},
        {"aten.triu", {"self"}, triangle<false>},
    };
    return table;
}

/// The constant for scalar argument `name`. `operands` are the tensors beside it.
Id scalar(Call& call, const Row& row, Expr& e, std::string_view name, DType compute,
          const std::vector<Tensor>& operands) {
    const double value = call.number(name);
    const bool integral = call.is_integral(name);
    const DType other = operands.empty() ? compute : operands.front().dtype;
    if (row.rounds_numbers && is_float(other)) return e.constant(rounded(value, other), compute_type(other));
    const DType type = call.dtype() != DType::Bool ? compute : integral ? DType::I64 : DType::F32;
    if (type == DType::I64 && integral) return e.add({Op::Const, type, {}, call.integer(name), 0});
    return e.constant(value, type);
}

std::vector<Tensor> lower(Call& call, const Row& row) {
    std::vector<Tensor> operands;
    for (const std::string_view name : row.operands) {
        if (call.is_tensor(name)) operands.push_back(call.tensor(name));
    }
    const DType result = call.dtype();
    const auto body = [&](Expr& e, const std::vector<Id>& loaded) {
        Formula formula{call, e, compute_type(result), {}};
        std::size_t next = 0;
        for (const std::string_view name : row.operands) {
            if (call.is_tensor(name)) {
                formula.x.push_back(loaded[next++]);
            } else if (call.has(name)) {
                formula.x.push_back(scalar(call, row, e, name, formula.type, operands));
            }
        }
        return row.value(formula);
    };
    return {call.b.pointwise(operands, result, body)};
}

}  // namespace

const LoweringTable& pointwise_lowerings() {
    static const LoweringTable table = [] {
        LoweringTable out;
        for (const Row& row : rows()) {
            out.push_back({row.op, [&row](Call& call) { return lower(call, row); }});
        }
        return out;
    }();
    return table;
}

}  // namespace stretto
