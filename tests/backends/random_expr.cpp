#include "backends/random_expr.h"

#include <algorithm>

namespace stretto {
namespace {

using generators::one_in;
using generators::pick;

template <class T>
T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(choices.size()) - 1))];
}

/// Digits of one dimension; `running` is the stride that is still free, and grows by what the dimension takes.
std::vector<Atom> random_digits(std::int64_t extent, bool masks, std::int64_t& running,
                                std::int64_t& offset) {
    if (masks && one_in(5)) return {atom(extent, 0)};
    if (masks && extent > 1 && one_in(4)) {
        Atom digit = atom(extent, running);
        digit.lo = pick(0, extent - 1);
        digit.hi = pick(digit.lo + 1, extent);
        offset -= digit.lo * running;
        running *= digit.hi - digit.lo;
        return {digit};
    }
    if (extent % 2 == 0 && one_in(3)) {
        const Atom outer = atom(2, running);
        running *= 2;
        const Atom inner = atom(extent / 2, running);
        running *= extent / 2;
        return {outer, inner};
    }
    const Atom digit = atom(extent, running);
    running *= extent;
    return {digit};
}

/// `x` as `type`. What no integer can hold becomes 1000 first: that conversion is the machine's business.
std::int32_t to_type(Expr& expr, std::int32_t x, DType type) {
    const DType from = expr.nodes[x].type;
    if (from == type) return x;
    if (!is_float(from) || type != DType::I64) return expr.cast(x, type);
    const std::int32_t limit = expr.constant(1000, from);
    const std::int32_t small = expr.apply(Op::Le, DType::Bool, {expr.apply(Op::Abs, {x}), limit});
    return expr.cast(expr.apply(Op::Select, from, {small, x, limit}), type);
}

}  // namespace

RandomMap::RandomMap() {
    space_.resize(static_cast<std::size_t>(pick(0, 4)));
    for (std::int64_t& extent : space_) extent = one_in(4) ? pick(30, 70) : pick(1, 9);
    while (volume(space_) > 3000) space_.pop_back();
    MapRegion region;
    region.space = space_;
    Store store;
    load(store.expr);
    for (std::int64_t steps = pick(1, 20); steps > 0; --steps) grow(store.expr);
    const DType result = store.expr.type();
    const bool changes = one_in(3) && is_float(result);
    store.target = access(BufferRole::Output,
                          changes ? one_of<DType>({DType::F32, DType::BF16, DType::F16}) : result, false);
    region.stores.push_back(std::move(store));
    graph_.regions.push_back({"map", std::move(region)});
}

std::int32_t RandomMap::buffer(DType type, std::int64_t count, BufferRole role) {
    graph_.buffers.push_back({"b" + std::to_string(graph_.buffers.size()), type, {count}, role, nullptr});
    return static_cast<std::int32_t>(graph_.buffers.size()) - 1;
}

Access RandomMap::access(BufferRole role, DType type, bool masks) {
    Access out;
    out.type = type;
    out.map.dims.resize(space_.size());
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < space_.size(); ++d)
        order.insert(order.begin() + pick(0, static_cast<std::int64_t>(d)), d);
    std::int64_t running = 1;
    for (std::size_t d : order) out.map.dims[d] = random_digits(space_[d], masks, running, out.map.offset);
    if (masks && one_in(3)) {
        out.indirect.push_back({running, 4});
        running *= 4;
    }
    out.source = buffer(type, running, role);
    return out;
}

std::int32_t RandomMap::any_integer(const Expr& expr) const {
    std::vector<std::int32_t> integers;
    for (std::int32_t n = 0; n <= expr.root(); ++n) {
        if (expr.nodes[n].type == DType::I64) integers.push_back(n);
    }
    return integers.empty() ? -1 : one_of(integers);
}

void RandomMap::load(Expr& expr) {
    const auto type = one_of<DType>({DType::Bool, DType::U8, DType::I32, DType::I64, DType::F16, DType::BF16,
                                     DType::F32, DType::F64, DType::F64});
    Access from = access(BufferRole::Parameter, type, true);
    if (from.indirect.empty()) {
        expr.load(std::move(from));
        return;
    }
    std::int32_t coordinate = any_integer(expr);
    if (coordinate < 0) coordinate = expr.load(access(BufferRole::Parameter, DType::I64, false));
    expr.load(std::move(from), {coordinate});
}

void RandomMap::convert(Expr& expr, std::int32_t x) {
    const DType from = expr.nodes[x].type;
    if (!is_float(from)) {
        expr.cast(x, one_of<DType>({DType::F64, DType::F32, DType::Bool}));
        return;
    }
    if (!one_in(3)) {
        expr.cast(x, one_of<DType>({DType::F64, DType::F32, DType::BF16, DType::F16, DType::Bool}));
        return;
    }
    to_type(expr, x, DType::I64);
}

void RandomMap::unary(Expr& expr, std::int32_t x) {
    const DType type = expr.nodes[x].type;
    if (type == DType::Bool) {
        expr.apply(Op::Not, DType::Bool, {x});
    } else if (type == DType::F64) {
        expr.apply(one_of<Op>({Op::Neg, Op::Abs, Op::Exp, Op::Log, Op::Sqrt, Op::Rsqrt, Op::Recip, Op::Sin,
                               Op::Cos, Op::Tanh, Op::Erf, Op::Sigmoid, Op::Floor, Op::Ceil}),
                   {x});
    } else if (is_float(type)) {
        expr.apply(one_of<Op>({Op::Neg, Op::Abs, Op::Sqrt, Op::Recip, Op::Floor, Op::Ceil}), {x});
    } else if (type == DType::I64) {
        expr.apply(one_of<Op>({Op::Neg, Op::Abs}), {x});
    } else {
        expr.cast(x, DType::I64);
    }
}

void RandomMap::binary(Expr& expr, std::int32_t x, std::int32_t y) {
    const DType type = expr.nodes[x].type;
    if (type == DType::U8 || type == DType::I32) {
        expr.cast(x, DType::I64);
        return;
    }
    y = to_type(expr, y, type);
    if (type == DType::Bool) {
        expr.apply(one_of<Op>({Op::And, Op::Or, Op::Eq, Op::Ne}), DType::Bool, {x, y});
    } else if (one_in(4)) {
        expr.apply(one_of<Op>({Op::Lt, Op::Le, Op::Eq, Op::Ne, Op::And, Op::Or}), DType::Bool, {x, y});
    } else if (type == DType::I64) {
        const std::int32_t divisor =
            expr.add({Op::Const, DType::I64, {}, one_of<std::int64_t>({-5, -2, -1, 1, 3, 7}), 0});
        const Op op = one_of<Op>({Op::Add, Op::Sub, Op::Min, Op::Max, Op::FloorDiv, Op::Mod});
        expr.apply(op, {x, op == Op::FloorDiv || op == Op::Mod ? divisor : y});
    } else if (type == DType::F64) {
        expr.apply(one_of<Op>({Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Pow, Op::Min, Op::Max, Op::FloorDiv,
                               Op::Mod}),
                   {x, y});
    } else {
        expr.apply(one_of<Op>({Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max}), {x, y});
    }
}

void RandomMap::grow(Expr& expr) {
    const auto node = [&] {
        return static_cast<std::int32_t>(pick(std::max(0, expr.root() - 5), expr.root()));
    };
    const std::int32_t x = node();
    switch (pick(0, 6)) {
        case 0:
            return load(expr);
        case 1:
            return convert(expr, x);
        case 2:
            return unary(expr, x);
        case 3: {
            if (space_.empty()) return unary(expr, x);
            expr.index(static_cast<int>(pick(0, static_cast<std::int64_t>(space_.size()) - 1)));
            return;
        }
        case 4: {
            const std::int32_t y = node();
            const std::int32_t condition = to_type(expr, x, DType::Bool);
            const std::int32_t z = node();
            const DType type = expr.nodes[y].type;
            expr.apply(Op::Select, type, {condition, y, to_type(expr, z, type)});
            return;
        }
        default:
            return binary(expr, x, node());
    }
}

}  // namespace stretto
