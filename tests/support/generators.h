#pragma once

#include <rapidcheck.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

/// Random values for property tests: well formed (whatever is referred to by number exists and comes earlier), but not
/// meaningful (types, extents and strides need not fit each other).
namespace stretto::generators {

/// Uniform whatever the size that rapidcheck has reached, so that the first tries are not trivial.
inline std::int64_t pick(std::int64_t lowest, std::int64_t highest) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(lowest, highest + 1));
}

inline bool one_in(std::int64_t count) { return pick(1, count) == count; }

template <class Enum>
Enum pick_enum(Enum last) {
    return static_cast<Enum>(pick(0, static_cast<std::int64_t>(last)));
}

inline DType pick_dtype() { return pick_enum(DType::F64); }

/// Letters of names as they occur, and the characters that a text form must escape.
inline std::string pick_name() {
    return *rc::gen::container<std::string>(rc::gen::elementOf(std::string("abz_.#09 \"\\\n\t\x01")));
}

inline Shape pick_shape(std::int64_t highest_rank = 4) {
    Shape shape(static_cast<std::size_t>(pick(0, highest_rank)));
    for (auto& extent : shape) extent = pick(1, 2000);
    return shape;
}

inline double pick_number() {
    return *rc::gen::oneOf(rc::gen::arbitrary<double>(), rc::gen::element(0.0, 1.0, -0.5, 0.1, 1e-300));
}

inline std::shared_ptr<const std::vector<std::byte>> pick_bytes() {
    std::vector<std::byte> bytes(static_cast<std::size_t>(pick(0, 90)));
    for (auto& byte : bytes) byte = static_cast<std::byte>(pick(0, 255));
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline Atom pick_digit() {
    Atom digit = atom(pick(1, 600), pick(-3, 4000));
    if (one_in(4)) {
        digit.lo = pick(0, digit.extent);
        digit.hi = pick(digit.lo, digit.extent);
    }
    return digit;
}

inline IndexMap pick_map() {
    IndexMap map;
    map.dims.resize(static_cast<std::size_t>(pick(0, 4)));
    for (auto& digits : map.dims) {
        digits.resize(static_cast<std::size_t>(pick(1, 3)));
        for (Atom& digit : digits) digit = pick_digit();
    }
    if (one_in(2)) map.offset = pick(-1000, 1'000'000);
    return map;
}

inline Access pick_access(std::int64_t sources) {
    Access access;
    access.source = static_cast<std::int32_t>(pick(0, sources - 1));
    access.type = pick_dtype();
    access.map = pick_map();
    if (one_in(3))
        access.indirect.resize(static_cast<std::size_t>(pick(1, 2)), {pick(1, 600), pick(1, 50'000)});
    return access;
}

inline ExprNode pick_node(const Expr& expr) {
    ExprNode node;
    do node.op = pick_enum(Op::Cast);
    while ((expr.empty() && info(node.op).arity != 0) || (expr.accesses.empty() && node.op == Op::Load));
    node.type = pick_dtype();
    auto arity = static_cast<std::size_t>(std::max(info(node.op).arity, 0));
    if (node.op == Op::Const && is_float(node.type)) node.value = pick_number();
    if (node.op == Op::Const && !is_float(node.type)) node.integer = *rc::gen::arbitrary<std::int64_t>();
    if (node.op == Op::Index || node.op == Op::Acc || node.op == Op::Stat) node.integer = pick(0, 3);
    if (node.op == Op::Load) {
        node.integer = pick(0, static_cast<std::int64_t>(expr.accesses.size()) - 1);
        arity = expr.accesses[static_cast<std::size_t>(node.integer)].indirect.size();
    }
    for (std::size_t i = 0; i < arity; ++i)
        node.args.push_back(static_cast<std::int32_t>(pick(0, expr.root())));
    return node;
}

/// An expression that reads sources 0 to `sources` - 1.
inline Expr pick_expr(std::int64_t sources) {
    Expr expr;
    if (sources > 0) {
        const std::int64_t accesses = pick(0, 3);
        for (std::int64_t i = 0; i < accesses; ++i) expr.accesses.push_back(pick_access(sources));
    }
    const std::int64_t nodes = pick(1, 8);
    for (std::int64_t i = 0; i < nodes; ++i) expr.nodes.push_back(pick_node(expr));
    return expr;
}

/// One node of `expr` for each indirect coordinate of `target`.
inline std::vector<std::int32_t> pick_indices(const Access& target, const Expr& expr) {
    std::vector<std::int32_t> indices;
    for (std::size_t i = 0; i < target.indirect.size(); ++i) {
        indices.push_back(static_cast<std::int32_t>(pick(0, expr.root())));
    }
    return indices;
}

template <std::size_t N>
std::array<std::int64_t, N> pick_space() {
    std::array<std::int64_t, N> space{};
    for (auto& extent : space) extent = pick(1, 600);
    return space;
}

inline FreshRow pick_fresh_row(std::int64_t sources) {
    if (one_in(2)) return {};
    return {pick_expr(sources), one_in(2) ? pick_expr(sources) : Expr{},
            one_in(2) ? pick_expr(sources) : Expr{}};
}

inline std::optional<Ragged> pick_ragged(std::int64_t sources) {
    if (one_in(2)) return std::nullopt;
    return Ragged{pick_access(sources), pick_access(sources), pick(0, 600)};
}

inline decltype(Node::op) pick_op(std::int64_t values) {
    switch (values == 0 ? 0 : pick(0, 5)) {
        case 0:
            return Input{pick_enum(Role::User), pick_name()};
        case 1:
            return Pointwise{pick_expr(values)};
        case 2:
            return Reduce{pick_enum(ReduceOp::Min), pick_shape(), pick_expr(values), pick_ragged(values)};
        case 3:
            return Contract{pick_space<4>(), pick_access(values), pick_access(values), pick_ragged(values)};
        case 4:
            return Attention{pick_space<5>(),
                             pick_access(values),
                             pick_access(values),
                             pick_access(values),
                             one_in(2) ? pick_expr(values) : Expr{},
                             pick_fresh_row(values),
                             pick_number(),
                             pick(0, 3)};
        default: {
            Update update{
                ValueId(pick(0, values - 1)), pick_shape(), pick_access(values), pick_expr(values), {}};
            update.indices = pick_indices(update.target, update.expr);
            return update;
        }
    }
}

inline Graph pick_graph() {
    Graph graph;
    const std::int64_t nodes = pick(0, 8);
    for (std::int64_t i = 0; i < nodes; ++i) {
        Node node{{pick_dtype(), pick_shape()}, pick_op(i), {}};
        if (one_in(2)) node.source = {pick_name(), pick_name()};
        if (std::holds_alternative<Input>(node.op) && one_in(2)) {
            graph.constants.emplace_back(ValueId(i), pick_bytes());
        }
        graph.nodes.push_back(std::move(node));
        if (one_in(3)) graph.outputs.push_back({ValueId(i), pick_name(), one_in(2) ? ValueId(0) : ValueId()});
    }
    return graph;
}

/// Any of the functions above as a generator.
template <class Pick>
auto any(Pick pick_value) {
    return rc::gen::exec(std::move(pick_value));
}

}  // namespace stretto::generators
