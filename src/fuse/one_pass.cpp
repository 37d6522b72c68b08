#include "fuse/one_pass.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "abi/abi.h"
#include "base/division.h"
#include "fuse/one_pass_use.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

/// Parts of the matrix: for all workers, but each of as many blocks. Only several have statistics.
std::int64_t parts_of(std::int64_t columns, const Machine& machine) {
    const std::int64_t blocks = ceil_div(columns, abi::kAttentionBlock);
    return std::max<std::int64_t>(ceil_div(blocks, ceil_div(blocks, machine.workers)), 2);
}

/// The graph with the results `product` never stored.
class OnePass {
public:
    OnePass(const Graph& from, const ProductUse& use, std::int64_t parts)
        : from_(from), use_(use), product_(use.product()), parts_(parts) {}

    Graph run() {
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
            source_ = from_.nodes[i].source;
            renamed_.push_back(convert(ValueId(static_cast<std::int64_t>(i))));
        }
        copy_outputs_and_constants(
            from_, [&](ValueId id) { return renamed_[id.index()]; }, to_);
        return std::move(to_);
    }

private:
    using Role = ProductUse::Role;

    [[nodiscard]] std::int64_t rows() const { return product_.space[1]; }
    [[nodiscard]] std::int64_t columns() const { return product_.space[2]; }
    [[nodiscard]] std::int64_t depth() const { return product_.space[3]; }

    ValueId add(Type type, Pointwise op) { return add_node({std::move(type), std::move(op), source_}); }
    ValueId add(Type type, Reduce op) { return add_node({std::move(type), std::move(op), source_}); }
    ValueId add_node(Node node) {
        to_.nodes.push_back(std::move(node));
        return ValueId(static_cast<std::int64_t>(to_.nodes.size()) - 1);
    }

    [[nodiscard]] Access moved(Access access) const {
        access.source = renamed_[static_cast<std::size_t>(access.source)].value;
        return access;
    }

    ValueId convert(ValueId id) {
        const Type& type = from_[id].type;
        switch (use_.role(id)) {
            case Role::Product:
                return parts_value_ = add_attention();
            case Role::Anew:
                return {};
            case Role::Maximum:
                return add(type, Reduce{ReduceOp::Max, {parts_}, part_statistic(type.shape, 1)});
            case Role::Total: {
                Expr term = part_statistic(type.shape, 0);
                const std::int32_t log = term.root();
                term.apply(Op::Exp, {term.apply(Op::Sub, {log, term.load(maximum(type.shape, {parts_}))})});
                return add(type, Reduce{ReduceOp::Sum, {parts_}, std::move(term)});
            }
            case Role::Single:
                return add_single(id);
            case Role::Mix:
                return add_mix(id);
            case Role::Other:
                break;
        }
        Node node = from_[id];
        rename_operands(node, [&](ValueId operand) { return renamed_[operand.index()]; });
        return add_node(std::move(node));
    }

    ValueId add_attention() {
        Attention op;
        op.space = {1, 1, rows(), columns(), depth()};
        op.splits = parts_;
        const auto row_of = [&](const Access& operand, std::size_t dim) {
            Access access = moved(operand);
            access.map.dims = {{atom(1, 0)}, {atom(1, 0)}, operand.map.dims[dim], operand.map.dims[3]};
            return access;
        };
        op.query = row_of(product_.a, 1);
        op.key = row_of(product_.b, 2);
        op.value = op.key;
        return add_node({{DType::F32, {parts_, 1, 1, rows(), depth() + 2}}, std::move(op), source_});
    }

    /// What the attention gives for each part: `at` of (row, part), for rows in the row-major order of `shape`.
    [[nodiscard]] Access part(const Shape& shape, std::int64_t at) const {
        Access access{parts_value_.value, DType::F32, identity_map(shape), {}};
        for (auto& digits : access.map.dims) {
            for (Atom& digit : digits) digit.stride *= depth() + 2;
        }
        access.map.dims.push_back({atom(parts_, rows() * (depth() + 2))});
        access.map.offset = at;
        return access;
    }

    /// The logarithm of a part's sum (0), or its largest result (1).
    [[nodiscard]] Expr part_statistic(const Shape& shape, std::int64_t which) const {
        Expr term;
        term.load(part(shape, depth() + which));
        return term;
    }

    /// Of rows in the order of `shape`, the same along the dimensions `others`.
    [[nodiscard]] Access maximum(const Shape& shape, const Shape& others) const {
        Access access{renamed_[use_.maximum().index()].value, DType::F32, identity_map(shape), {}};
        for (std::int64_t extent : others) access.map.dims.push_back({atom(extent, 0)});
        return access;
    }

    /// Each row's sum over columns of exp(result - maximum) times the matrix's row.
    ValueId mixed() {
        if (mixed_.valid()) return mixed_;
        Expr term;
        Access log = part({rows()}, depth());
        Access mix = part({rows()}, 0);
        Access most = maximum({rows()}, {parts_});
        log.map = inserted_dim(log.map, 1, depth());
        most.map = inserted_dim(most.map, 1, depth());
        mix.map = inserted_dim(mix.map, 1, depth());
        mix.map.dims[1] = {atom(depth(), 1)};
        const std::int32_t weight =
            term.apply(Op::Exp, {term.apply(Op::Sub, {term.load(log), term.load(most)})});
        term.apply(Op::Mul, {weight, term.load(mix)});
        mixed_ = add({DType::F32, {rows(), depth()}}, Reduce{ReduceOp::Sum, {parts_}, std::move(term)});
        return mixed_;
    }

    ValueId add_mix(ValueId id) {
        const ValueId all = mixed();
        Expr expr = use_.mix(id);
        for (Access& access : expr.accesses) {
            if (access.source == ProductUse::kMixed) {
                access.source = all.value;
            } else {
                access = moved(access);
            }
        }
        const Type& type = from_[id].type;
        expr = extracted(expr, expr.cast(expr.root(), type.dtype));
        return add(type, Pointwise{std::move(expr)});
    }

    /// Single results are products of one row and one column.
    ValueId add_single(ValueId id) {
        const Type& type = from_[id].type;
        const Expr& expr = use_.single(id);
        std::map<std::size_t, ValueId> products;
        for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
            if (use_.is_result(expr, i)) products[i] = add_product(expr, i, type.shape);
        }
        Expr result = rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            const auto found = products.find(i);
            if (found == products.end()) return std::nullopt;
            return out.load({found->second.value, DType::F32, identity_map(type.shape), {}});
        });
        for (Access& access : result.accesses) {
            const bool own = std::any_of(products.begin(), products.end(), [&](const auto& product) {
                return product.second.value == access.source;
            });
            if (!own) access = moved(access);
        }
        result = extracted(result, result.cast(result.root(), type.dtype));
        return add(type, Pointwise{std::move(result)});
    }

    ValueId add_product(const Expr& expr, std::size_t load, const Shape& shape) {
        Expr at = extracted(expr, static_cast<std::int32_t>(load));
        for (Access& access : at.accesses) access.map.dims.push_back({atom(depth(), 0)});
        const ExprNode& node = at.nodes.back();
        const auto places = use_.operands_of(at.accesses[static_cast<std::size_t>(node.integer)]);
        Expr term;
        const auto operand = [&](const ProductUse::Operand& place) {
            std::vector<std::int32_t> args;
            for (std::size_t i : place.args) args.push_back(copy_into(term, at, node.args[i]));
            return term.cast(term.load(place.access, std::move(args)), DType::F32);
        };
        const std::int32_t left = operand(places->first);
        const std::int32_t right = operand(places->second);
        term = extracted(term, term.apply(Op::Mul, {left, right}));
        for (Access& access : term.accesses) access = moved(access);
        return add({DType::F32, shape}, Reduce{ReduceOp::Sum, {depth()}, std::move(term)});
    }

    const Graph& from_;
    const ProductUse& use_;
    const Contract& product_;
    std::int64_t parts_;
    Graph to_;
    Source source_;
    std::vector<ValueId> renamed_;
    ValueId parts_value_;
    ValueId mixed_;
};

}  // namespace

Graph in_one_pass(Graph graph, const Machine& machine) {
    std::size_t i = 0;
    while (i < graph.nodes.size()) {
        const auto* product = std::get_if<Contract>(&graph.nodes[i].op);
        const std::int64_t blocks = product != nullptr ? product->space[2] / abi::kAttentionBlock : 0;
        const bool large = blocks > 1 && 2 * blocks >= machine.workers;
        const ValueId id(static_cast<std::int64_t>(i++));
        if (!large) continue;
        ProductUse use(graph, id);
        if (!use.fits()) continue;
        graph = simplify(OnePass(graph, use, parts_of(product->space[2], machine)).run());
        i = 0;
    }
    return graph;
}

}  // namespace stretto
