#include "simplify/strip_uses.h"

#include <algorithm>

#include "graph/inline.h"

namespace stretto {
namespace {

constexpr int kMostPasses = 3;
constexpr std::size_t kLongExpression = 256;

const ExprNode& node_of(const Expr& expr, std::int32_t node) {
    return expr.nodes[static_cast<std::size_t>(node)];
}

/// How an expression reads a product's results.
struct Reading {
    bool picks = false;   ///< at columns that the device computes
    std::size_t dim = 0;  ///< else the coordinate along the columns
};

class Finder {
public:
    Finder(const Graph& graph, ValueId product)
        : graph_(graph), product_(product), shape_(graph[product].type.shape) {}

    std::optional<StripUses> run() {
        found_.product = product_;
        bool reduced = false;
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            auto value = value_of(i);
            if (!value || value->after > kMostPasses) return std::nullopt;
            reduced |= value->use == StripUse::Reduced;
            found_.passes = std::max(found_.passes, value->after);
            found_.values.push_back(std::move(*value));
        }
        const bool wide_result =
            std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                        [&](const Output& output) { return of(output.value).use == StripUse::Wide; });
        if (!reduced || wide_result) return std::nullopt;
        return std::move(found_);
    }

private:
    [[nodiscard]] const StripValue& of(ValueId value) const { return found_.values[value.index()]; }
    [[nodiscard]] bool is_wide(std::int32_t source) const {
        return of(ValueId(source)).use == StripUse::Wide;
    }

    /// Nothing where the columns are read in a way that StripUse does not have.
    std::optional<StripValue> value_of(std::size_t i) const {
        const Node& node = graph_.nodes[i];
        StripValue value;
        bool reads_wide = false;
        for (const ValueId operand : operands(node)) {
            value.after = std::max(value.after, of(operand).after);
            reads_wide |= of(operand).use == StripUse::Wide;
        }
        if (i == product_.index()) return of_product(node, value.after);
        if (!reads_wide) return apart(node, std::move(value));
        if (const auto* op = std::get_if<Pointwise>(&node.op)) return element_wise(*op, std::move(value));
        if (const auto* op = std::get_if<Reduce>(&node.op)) return reduced(node, *op, std::move(value));
        if (const auto* op = std::get_if<Contract>(&node.op)) return contracted(node, *op, std::move(value));
        return std::nullopt;
    }

    [[nodiscard]] std::optional<StripValue> of_product(const Node& node, int after) const {
        StripValue value{StripUse::Wide, after, shape_.size() - 1, {}, {}};
        value.expr.load({product_.value, node.type.dtype, identity_map(shape_), {}});
        return value;
    }

    /// `expr` with the product's results alone in place of wide values. Element-wise values as large as these, which do not
    /// come from them, are computed where they are read, too.
    [[nodiscard]] std::optional<Expr> of_results(const Expr& expr) const {
        std::int32_t failed = -1;
        return inlined(
            expr,
            [&](std::int32_t source) -> std::optional<Producer> {
                const ValueId value(source);
                const StripUse use = of(value).use;
                const bool given = use != StripUse::Wide && use != StripUse::None;
                if (given || of(value).expr.empty() || value == product_) return std::nullopt;
                return Producer{&of(value).expr, graph_[value].type.shape};
            },
            &failed);
    }

    /// A value that does not vary with the columns.
    [[nodiscard]] StripValue apart(const Node& node, StripValue value) const {
        const auto* op = std::get_if<Pointwise>(&node.op);
        if (op == nullptr || volume(node.type.shape) < volume(shape_)) return value;
        auto expr = of_results(op->expr);
        if (expr && expr->nodes.size() < kLongExpression) value.expr = std::move(*expr);
        return value;
    }

    [[nodiscard]] std::optional<Reading> reading_of(const Expr& expr) const {
        std::optional<Reading> reading;
        for (const Access& access : expr.accesses) {
            if (access.source != product_.value) continue;
            Reading next{!access.indirect.empty(), 0};
            if (next.picks) {
                const auto columns = coordinate_map(access.map, shape_, shape_.size() - 1);
                const Access::Indirect whole{1, shape_.back()};
                if (access.indirect != std::vector{whole} || !columns || normalized(*columns).offset != 0 ||
                    moves(*columns))
                    return std::nullopt;
            } else {
                const auto dim = coordinate_along(access.map, shape_, shape_.size() - 1);
                if (!dim) return std::nullopt;
                next.dim = *dim;
            }
            if (reading && (reading->picks != next.picks || reading->dim != next.dim)) return std::nullopt;
            reading = next;
        }
        return reading;
    }

    static bool moves(const IndexMap& map) {
        return std::any_of(map.dims.begin(), map.dims.end(), [](const std::vector<Atom>& atoms) {
            return std::any_of(atoms.begin(), atoms.end(),
                               [](const Atom& a) { return a.extent > 1 && a.stride != 0; });
        });
    }

    [[nodiscard]] std::optional<StripValue> element_wise(const Pointwise& op, StripValue value) const {
        auto expr = of_results(op.expr);
        const auto reading = expr ? reading_of(*expr) : std::nullopt;
        if (!reading) return std::nullopt;
        value.use = reading->picks ? StripUse::Picked : StripUse::Wide;
        value.dim = reading->dim;
        if (reading->picks) {
            if (!picks_at_known_places(*expr)) return std::nullopt;
            value.after = std::max(value.after, 1);
        }
        value.expr = std::move(*expr);
        return value;
    }

    /// Can the columns that are read be computed before the first pass?
    [[nodiscard]] bool picks_at_known_places(const Expr& expr) const {
        return std::all_of(expr.nodes.begin(), expr.nodes.end(), [&](const ExprNode& node) {
            if (node.op != Op::Load) return true;
            const Access& access = expr.accesses[static_cast<std::size_t>(node.integer)];
            if (access.source != product_.value) return true;
            const Expr place = extracted(expr, node.args.front());
            return std::all_of(place.accesses.begin(), place.accesses.end(), [&](const Access& read) {
                return !is_wide(read.source) && of(ValueId(read.source)).after == 0;
            });
        });
    }

    [[nodiscard]] std::optional<StripValue> reduced(const Node& node, const Reduce& op,
                                                    StripValue value) const {
        auto term = op.ragged ? std::nullopt : of_results(op.term);
        const auto reading = term ? reading_of(*term) : std::nullopt;
        if (!reading || reading->picks) return std::nullopt;
        value.dim = reading->dim;
        value.use = value.dim < node.type.shape.size() ? StripUse::Kept : StripUse::Reduced;
        value.expr = std::move(*term);
        if (const auto maximum = shift_of(node, op, value)) {
            value.shift = *maximum;
            value.after = of(*maximum).after;
        } else {
            ++value.after;
        }
        return value;
    }

    /// The maximum of all x, where the reduction is the sum of exp(x - maximum) in F32.
    [[nodiscard]] std::optional<ValueId> shift_of(const Node& node, const Reduce& op,
                                                  const StripValue& value) const {
        const Expr& term = value.expr;
        if (op.op != ReduceOp::Sum || node.type.dtype != DType::F32) return std::nullopt;
        if (term.nodes.back().op != Op::Exp || term.type() != DType::F32) return std::nullopt;
        const ExprNode& difference = node_of(term, term.nodes.back().args[0]);
        if (difference.op != Op::Sub || difference.type != DType::F32) return std::nullopt;
        const ExprNode& load = node_of(term, difference.args[1]);
        if (load.op != Op::Load || !load.args.empty()) return std::nullopt;
        const Access& access = term.accesses[static_cast<std::size_t>(load.integer)];
        const ValueId maximum(access.source);
        const auto* of_all = std::get_if<Reduce>(&graph_[maximum].op);
        if (of_all == nullptr || of_all->op != ReduceOp::Max || of(maximum).use != StripUse::Reduced ||
            of_all->extents != op.extents || graph_[maximum].type != node.type)
            return std::nullopt;
        IndexMap rows = identity_map(node.type.shape);
        for (const std::int64_t extent : op.extents) rows.dims.push_back({atom(extent, 0)});
        if (normalized(access.map) != normalized(rows)) return std::nullopt;
        const bool same = extracted(term, difference.args[0]) == of(maximum).expr;
        return same ? std::optional(maximum) : std::nullopt;
    }

    [[nodiscard]] std::optional<StripValue> contracted(const Node& node, const Contract& op,
                                                       StripValue value) const {
        std::optional<std::size_t> dim;
        for (const Access* access : {&op.a, &op.b}) {
            if (!is_wide(access->source)) continue;
            const ValueId source(access->source);
            const auto next = coordinate_along(access->map, graph_[source].type.shape, of(source).dim);
            if (!next || (dim && dim != next)) return std::nullopt;
            dim = next;
        }
        const Shape& shape = node.type.shape;
        const std::size_t rank = shape.size();
        if (op.ragged || dim == 0 || rank < 2 || shape[rank - 2] != op.space[1] ||
            shape[rank - 1] != op.space[2])
            return std::nullopt;
        value.use = dim == 3 ? StripUse::Summed : StripUse::Kept;
        value.dim = dim == 3 ? 3 : rank - 3 + *dim;
        ++value.after;
        return value;
    }

    const Graph& graph_;
    const ValueId product_;
    const Shape& shape_;
    StripUses found_;
};

}  // namespace

std::optional<std::size_t> coordinate_along(const IndexMap& map, const Shape& shape, std::size_t dim) {
    auto coordinates = coordinate_map(map, shape, dim);
    if (!coordinates || coordinates->offset != 0) return std::nullopt;
    coordinates = normalized(*coordinates);
    std::optional<std::size_t> along;
    for (std::size_t d = 0; d < coordinates->rank(); ++d) {
        const std::vector<Atom>& atoms = coordinates->dims[d];
        const bool still = std::all_of(atoms.begin(), atoms.end(),
                                       [](const Atom& a) { return a.stride == 0 || a.extent == 1; });
        if (still) continue;
        if (along || atoms != std::vector{atom(shape[dim], 1)}) return std::nullopt;
        along = d;
    }
    return along;
}

std::optional<StripUses> strip_uses(const Graph& graph, ValueId product) {
    return Finder(graph, product).run();
}

}  // namespace stretto
