#include "fuse/one_pass_use.h"

#include <algorithm>

#include "fuse/one_pass_mix.h"
#include "fuse/region.h"
#include "graph/index_groups.h"
#include "graph/inline.h"

namespace stretto {
namespace {

constexpr std::int64_t kMostRows = 2, kDepthOfTwo = 768;
constexpr std::int64_t kPieceBytes = 16;
/// Values of more results than these are no single ones.
constexpr std::int64_t kMostSingle = 64;
/// Longer expressions are not looked into further.
constexpr std::size_t kMostNodes = 256;

/// The node, or what it converts from one float type to another.
std::size_t unconverted(const Expr& expr, std::size_t node) {
    while (expr.nodes[node].op == Op::Cast && is_float(expr.nodes[node].type)) {
        const auto from = static_cast<std::size_t>(expr.nodes[node].args.front());
        if (!is_float(expr.nodes[from].type)) break;
        node = from;
    }
    return node;
}

std::size_t unconverted_root(const Expr& expr) { return unconverted(expr, expr.nodes.size() - 1); }

/// A map over one value, whose digits each move along one dimension of a row-major value [rows, columns], as the maps of both
/// coordinates.
struct Coordinates {
    IndexMap row;
    IndexMap column;
};

std::optional<Coordinates> coordinates_of(const IndexMap& map, std::int64_t rows, std::int64_t columns) {
    const auto row = coordinate_map(map, {rows, columns}, 0);
    const auto column = coordinate_map(map, {rows, columns}, 1);
    if (!row || !column || map.masked()) return std::nullopt;
    return Coordinates{*row, *column};
}

/// A coordinate that moves `stride` elements each step, from `offset` on.
IndexMap scaled(IndexMap map, std::int64_t stride, std::int64_t offset) {
    for (auto& digits : map.dims) {
        for (Atom& digit : digits) digit.stride *= stride;
    }
    map.offset = map.offset * stride + offset;
    return map;
}

bool is_single_digit(const IndexMap& map, std::size_t dim) {
    const auto digits = normalized(map).dims[dim];
    return digits.size() == 1 && !digits.front().masked();
}

std::int64_t stride_of(const IndexMap& map, std::size_t dim) {
    const Atom digit = normalized(map).dims[dim].front();
    return digit.extent > 1 ? digit.stride : 0;
}

}  // namespace

ProductUse::ProductUse(const Graph& graph, ValueId product)
    : graph_(graph), id_(product), product_(std::get<Contract>(graph[product].op)) {}

bool ProductUse::fits() {
    if (!has_plain_operands()) return false;
    roles_.assign(graph_.nodes.size(), Role::Other);
    roles_[id_.index()] = Role::Product;
    bool mixes = false;
    bool total = false;
    for (std::size_t i = id_.index() + 1; i < graph_.nodes.size(); ++i) {
        const auto read = operands(graph_.nodes[i]);
        if (std::none_of(read.begin(), read.end(), [&](ValueId id) { return is_unstored(id.value); }))
            continue;
        const auto role = role_of(i);
        if (!role) return false;
        roles_[i] = *role;
        if (role == Role::Maximum && !maximum_.valid()) maximum_ = ValueId(static_cast<std::int64_t>(i));
        mixes |= role == Role::Mix;
        total |= role == Role::Total;
    }
    const bool kept = std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                  [&](const Output& output) { return is_unstored(output.value.value); });
    return mixes && total && !kept;
}

bool ProductUse::has_plain_operands() const {
    const auto [batch, m, n, k] = product_.space;
    const auto& [a, b] = std::pair(product_.a, product_.b);
    const auto size = static_cast<std::int64_t>(size_of(b.type));
    const bool typed = is_float(a.type) && is_float(b.type) && a.type != DType::F64 && b.type != DType::F64;
    if (product_.ragged || batch != 1 || m > kMostRows || k < 2 || !typed) return false;
    if (k > kWidestRow || k * size > kMostRowBytes || (m > 1 && k > kDepthOfTwo)) return false;
    if (!a.indirect.empty() || !b.indirect.empty()) return false;
    const bool plain = is_single_digit(a.map, 1) && is_single_digit(a.map, 3) && is_single_digit(b.map, 2) &&
                       is_single_digit(b.map, 3);
    return plain && stride_of(b.map, 3) == 1 && k * size % kPieceBytes == 0 &&
           stride_of(b.map, 2) * size % kPieceBytes == 0 && b.map.offset * size % kPieceBytes == 0;
}

bool ProductUse::is_unstored(std::int32_t source) const {
    const Role role = roles_[static_cast<std::size_t>(source)];
    return role == Role::Product || role == Role::Anew;
}

bool ProductUse::is_wide(const Node& node) const {
    const Shape& shape = node.type.shape;
    return std::holds_alternative<Pointwise>(node.op) && !shape.empty() && shape.back() == columns() &&
           volume(shape) == rows() * columns();
}

bool ProductUse::reads_unstored(const Expr& expr) const {
    return std::any_of(expr.accesses.begin(), expr.accesses.end(),
                       [&](const Access& access) { return is_unstored(access.source); });
}

/// `expr` with values of all columns inlined, without roundings.
std::optional<Expr> ProductUse::expanded(Expr expr) const {
    const auto producer_of = [&](std::int32_t source) -> std::optional<Producer> {
        const Node& node = graph_[ValueId(source)];
        if (!is_wide(node)) return std::nullopt;
        return Producer{&std::get<Pointwise>(node.op).expr, node.type.shape};
    };
    while (std::any_of(expr.accesses.begin(), expr.accesses.end(),
                       [&](const Access& access) { return producer_of(access.source).has_value(); })) {
        std::int32_t failed = -1;
        auto next = inlined(expr, producer_of, &failed);
        if (!next || next->nodes.size() > kMostNodes) return std::nullopt;
        expr = std::move(*next);
    }
    return widened(folded(expr));
}

std::optional<ProductUse::Role> ProductUse::role_of(std::size_t i) {
    const Node& node = graph_.nodes[i];
    const ValueId id(static_cast<std::int64_t>(i));
    if (is_wide(node)) return Role::Anew;
    if (const auto* op = std::get_if<Pointwise>(&node.op))
        return take_single(id, *op) ? std::optional(Role::Single) : std::nullopt;
    if (const auto* reduce = std::get_if<Reduce>(&node.op)) return role_of_reduction(id, *reduce);
    const auto* contract = std::get_if<Contract>(&node.op);
    return contract != nullptr && take_mix(id, *contract) ? std::optional(Role::Mix) : std::nullopt;
}

/// Does the access take all elements of a value in order? Then kept coordinates that come first are those of rows.
bool ProductUse::is_whole(const Access& access, const Shape& space) const {
    return access.indirect.empty() && is_linear_identity(access.map, volume(space)) &&
           volume(graph_[ValueId(access.source)].type.shape) == volume(space);
}

std::optional<ProductUse::Role> ProductUse::role_of_reduction(ValueId id, const Reduce& reduce) {
    const auto term = expanded(reduce.term);
    const Shape& kept = graph_[id].type.shape;
    if (!term || reduce.ragged || volume(kept) % rows() != 0) return std::nullopt;
    Shape space = kept;
    space.insert(space.end(), reduce.extents.begin(), reduce.extents.end());
    const ExprNode& root = term->nodes[unconverted_root(*term)];
    bool known = false;
    if (root.op == Op::Load) {
        const Access& access = term->accesses[static_cast<std::size_t>(root.integer)];
        const auto part = partial_.find(access.source);
        const bool same = part != partial_.end() ? part->second == reduce.op
                                                 : access.source == id_.value && reduce.op == ReduceOp::Max;
        known = same && is_whole(access, space);
    } else if (reduce.op == ReduceOp::Sum) {
        known = is_exponential_less_maximum(*term, space);
    }
    if (!known) return std::nullopt;
    if (volume(kept) == rows()) return reduce.op == ReduceOp::Max ? Role::Maximum : Role::Total;
    partial_[id.value] = reduce.op;
    return Role::Anew;
}

bool ProductUse::is_exponential_less_maximum(const Expr& term, const Shape& space) const {
    const auto load_under = [&](std::int32_t node) -> const Access* {
        const ExprNode& load = term.nodes[unconverted(term, static_cast<std::size_t>(node))];
        return load.op == Op::Load && load.args.empty()
                   ? &term.accesses[static_cast<std::size_t>(load.integer)]
                   : nullptr;
    };
    const ExprNode& root = term.nodes[unconverted_root(term)];
    if (root.op != Op::Exp) return false;
    const ExprNode& less = term.nodes[unconverted(term, static_cast<std::size_t>(root.args[0]))];
    if (less.op != Op::Sub) return false;
    const Access* result = load_under(less.args[0]);
    const Access* most = load_under(less.args[1]);
    if (result == nullptr || most == nullptr || result->source != id_.value || !is_whole(*result, space))
        return false;
    if (roles_[static_cast<std::size_t>(most->source)] != Role::Maximum) return false;
    const auto at = coordinates_of(result->map, rows(), columns());
    return at && has_same_places(most->map, at->row);
}

bool ProductUse::is_result(const Expr& expr, std::size_t node) const {
    const ExprNode& load = expr.nodes[node];
    return load.op == Op::Load && expr.accesses[static_cast<std::size_t>(load.integer)].source == id_.value;
}

bool ProductUse::take_single(ValueId id, const Pointwise& op) {
    auto expr = expanded(op.expr);
    if (!expr || volume(graph_[id].type.shape) > kMostSingle) return false;
    for (const Access& access : expr->accesses) {
        if (access.source != id_.value && is_unstored(access.source)) return false;
        if (access.source == id_.value && !operands_of(access)) return false;
    }
    expressions_[id] = std::move(*expr);
    return true;
}

std::optional<std::pair<ProductUse::Operand, ProductUse::Operand>> ProductUse::operands_of(
    const Access& result) const {
    const auto at = coordinates_of(result.map, rows(), columns());
    if (!at) return std::nullopt;
    const auto operand = [&](const Access& of, std::size_t dim, const IndexMap& coordinate) {
        Operand found{of, {}};
        found.access.map = scaled(coordinate, stride_of(of.map, dim), of.map.offset);
        found.access.map.dims.back() = of.map.dims[3];
        return found;
    };
    std::pair operands(operand(product_.a, 1, at->row), operand(product_.b, 2, at->column));
    for (std::size_t i = 0; i < result.indirect.size(); ++i) {
        const auto [stride, extent] = result.indirect[i];
        const bool row = stride % columns() == 0;
        if (!row && stride * extent > columns()) return std::nullopt;
        Operand& moved = row ? operands.first : operands.second;
        const std::int64_t step =
            row ? stride / columns() * stride_of(product_.a.map, 1) : stride * stride_of(product_.b.map, 2);
        moved.access.indirect.push_back({step, extent});
        moved.args.push_back(i);
    }
    return operands;
}

bool ProductUse::take_mix(ValueId id, const Contract& contract) {
    const auto [batch, m, n, k] = contract.space;
    const auto& [space_b, space_m, space_n, space_k] = product_.space;
    if (contract.ragged || batch != 1 || m != rows() || n != space_k || k != columns()) return false;
    Access matrix = product_.b;
    matrix.map.dims = {{atom(1, 0)}, {atom(m, 0)}, product_.b.map.dims[3], product_.b.map.dims[2]};
    const bool same = contract.b.source == matrix.source && contract.b.type == matrix.type &&
                      contract.b.indirect.empty() && has_same_places(contract.b.map, matrix.map);
    if (!same || !maximum_.valid()) return false;
    Expr weight;
    weight.load(contract.a);
    const auto expr = expanded(std::move(weight));
    if (!expr) return false;
    auto sum = mixed_rows(*expr, matrix, {id_, maximum_, rows(), columns(), n});
    if (!sum || reads_unstored(*sum)) return false;
    expressions_[id] = std::move(*sum);
    return true;
}

}  // namespace stretto
