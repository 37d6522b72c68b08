#include "simplify/selected_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "graph/inline.h"

namespace stretto {
namespace {

/// Longer terms are not looked into further.
constexpr std::size_t kLongTerm = 256;

const ExprNode& node_of(const Expr& expr, std::int32_t node) {
    return expr.nodes[static_cast<std::size_t>(node)];
}

bool compares_index(const Expr& expr) {
    return std::any_of(expr.nodes.begin(), expr.nodes.end(), [&](const ExprNode& node) {
        const bool equality = node.op == Op::Eq || node.op == Op::Ne;
        return equality && std::any_of(node.args.begin(), node.args.end(),
                                       [&](std::int32_t arg) { return node_of(expr, arg).op == Op::Index; });
    });
}

/// For each value whether it is element-wise and itself, or an element-wise value that it reads, compares a coordinate.
std::vector<bool> values_with_comparisons(const Graph& graph) {
    std::vector<bool> found;
    for (const Node& node : graph.nodes) {
        const auto* op = std::get_if<Pointwise>(&node.op);
        const auto compares = [&](const Access& access) {
            return found[static_cast<std::size_t>(access.source)];
        };
        found.push_back(op != nullptr &&
                        (compares_index(op->expr) ||
                         std::any_of(op->expr.accesses.begin(), op->expr.accesses.end(), compares)));
    }
    return found;
}

/// `term` with its operands inlined as far as they compare coordinates. They may be read in other ways than element for element:
/// what cannot be inlined stays.
Expr with_comparisons(Expr term, const Graph& graph, const std::vector<bool>& compares) {
    const auto producer_of = [&](std::int32_t source) -> std::optional<Producer> {
        if (!compares[static_cast<std::size_t>(source)]) return std::nullopt;
        const Node& node = graph[ValueId(source)];
        return Producer{&std::get<Pointwise>(node.op).expr, node.type.shape};
    };
    const auto reads = [&] {
        return std::any_of(term.accesses.begin(), term.accesses.end(), [&](const Access& access) {
            return compares[static_cast<std::size_t>(access.source)];
        });
    };
    while (reads() && term.nodes.size() < kLongTerm) {
        std::int32_t failed = -1;
        auto next = inlined(term, producer_of, &failed);
        if (!next) return term;
        term = std::move(*next);
    }
    return term;
}

/// What is known of a value whatever its operands are.
struct Known {
    bool zero = false;    ///< if it is a number at all
    bool finite = false;  ///< a number, and not infinite
};

Known known_of(const Expr& expr) {
    std::vector<Known> known;
    for (const ExprNode& node : expr.nodes) {
        const auto of = [&](std::size_t i) { return known[static_cast<std::size_t>(node.args[i])]; };
        Known now{false, !is_float(node.type)};
        if (node.op == Op::Const) {
            now.zero = is_float(node.type) ? node.value == 0 : node.integer == 0;
            now.finite = !is_float(node.type) || std::isfinite(node.value);
        } else if (node.op == Op::Neg) {
            now = of(0);
        } else if (node.op == Op::Cast) {
            const bool number = of(0).finite || is_float(node.type);
            now.zero = of(0).zero && number;
            now.finite |= (of(0).zero && of(0).finite) || node_of(expr, node.args[0]).type == DType::Bool;
        } else if (node.op == Op::Mul) {
            now.zero = of(0).zero || of(1).zero;
            now.finite |= now.zero && of(0).finite && of(1).finite;
        } else if (node.op == Op::Div && is_float(node.type)) {
            now.zero = of(0).zero;
        } else if (node.op == Op::Select) {
            now = {of(1).zero && of(2).zero, of(1).finite && of(2).finite};
        }
        known.push_back(now);
    }
    return known.back();
}

/// The comparison of coordinate `dim` with a place that does not vary with it.
struct Comparison {
    std::size_t node = 0;
    std::int32_t place = 0;
    std::vector<std::int32_t> before;  ///< to be subtracted from the place
    bool equal = true;
};

/// As node `own` of `term` compares with node `place`, where that is such a comparison.
std::optional<Comparison> comparison(const Expr& term, std::int32_t own, std::int32_t place,
                                     std::size_t dim) {
    Comparison found{0, place, {}, true};
    if (node_of(term, place).type != DType::I64 || depends_on(term, place, dim)) return std::nullopt;
    while (node_of(term, own).op == Op::Add && node_of(term, own).type == DType::I64) {
        const auto& args = node_of(term, own).args;
        const std::size_t moving = depends_on(term, args[0], dim) ? 0 : 1;
        const std::int32_t other = args[1 - moving];
        if (depends_on(term, other, dim) || node_of(term, other).type != DType::I64) return std::nullopt;
        found.before.push_back(other);
        own = args[moving];
    }
    const ExprNode& index = node_of(term, own);
    if (index.op != Op::Index || index.integer != static_cast<std::int64_t>(dim)) return std::nullopt;
    return found;
}

std::vector<Comparison> comparisons(const Expr& term, std::size_t dim) {
    std::vector<Comparison> all;
    for (std::size_t i = 0; i < term.nodes.size(); ++i) {
        const ExprNode& node = term.nodes[i];
        if (node.op != Op::Eq && node.op != Op::Ne) continue;
        for (const std::size_t side : {0, 1}) {
            auto found = comparison(term, node.args[side], node.args[1 - side], dim);
            if (!found) continue;
            found->node = i;
            found->equal = node.op == Op::Eq;
            all.push_back(std::move(*found));
        }
    }
    return all;
}

/// Node of `to` for the place that the coordinate is compared with.
std::int32_t place_in(Expr& to, const Expr& term, const Comparison& comparison) {
    std::int32_t place = copy_into(to, term, comparison.place);
    for (std::int32_t before : comparison.before)
        place = to.apply(Op::Sub, {place, copy_into(to, term, before)});
    return place;
}

/// `term` where the comparison is false.
Expr missed(const Expr& term, const Comparison& comparison) {
    return folded(rewritten(term, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        if (i != comparison.node) return std::nullopt;
        return out.constant(comparison.equal ? 0 : 1, DType::Bool);
    }));
}

/// `access`, whose coordinate `dim` is node `place` of `to`; adds the indirect coordinates to `args`. Nothing where a digit is
/// masked, or counts down.
std::optional<Access> read_at(Access access, std::size_t dim, std::int32_t place, Expr& to,
                              std::vector<std::int32_t>& args) {
    std::vector<Atom>& digits = access.map.dims[dim];
    std::int64_t period = 1;
    for (std::size_t i = digits.size(); i-- > 0;) {
        const Atom& digit = digits[i];
        if (digit.masked() || digit.stride < 0) return std::nullopt;
        if (digit.extent > 1 && digit.stride > 0) {
            std::int32_t at = place;
            if (period > 1) {
                const auto inner = to.constant(static_cast<double>(period), DType::I64);
                at = to.apply(Op::FloorDiv, {at, inner});
            }
            if (i > 0) {
                const auto extent = to.constant(static_cast<double>(digit.extent), DType::I64);
                at = to.apply(Op::Mod, {at, extent});
            }
            access.indirect.push_back({digit.stride, digit.extent});
            args.push_back(at);
        }
        period *= digit.extent;
    }
    digits = {atom(period, 0)};
    return access;
}

/// `term` at the place of the comparison, where the two are equal.
std::optional<Expr> met(const Expr& term, std::size_t dim, const Comparison& comparison) {
    Expr out;
    const std::int32_t place = place_in(out, term, comparison);
    std::vector<std::int32_t> done;
    for (std::size_t i = 0; i < term.nodes.size(); ++i) {
        ExprNode node = term.nodes[i];
        for (std::int32_t& arg : node.args) arg = done[static_cast<std::size_t>(arg)];
        if (i == comparison.node) {
            done.push_back(out.constant(comparison.equal ? 1 : 0, DType::Bool));
            continue;
        }
        if (node.op == Op::Index && node.integer == static_cast<std::int64_t>(dim)) {
            done.push_back(place);
            continue;
        }
        if (node.op == Op::Load) {
            auto access =
                read_at(term.accesses[static_cast<std::size_t>(node.integer)], dim, place, out, node.args);
            if (!access) return std::nullopt;
            node.integer = out.add_access(std::move(*access));
        }
        done.push_back(out.add(std::move(node)));
    }
    return extracted(out, done.back());
}

/// The same expression over a space without dimension `dim`, with which it does not vary.
Expr without_dim(Expr expr, std::size_t dim) {
    for (ExprNode& node : expr.nodes) {
        if (node.op == Op::Index && node.integer > static_cast<std::int64_t>(dim)) --node.integer;
    }
    for (Access& access : expr.accesses)
        access.map.dims.erase(access.map.dims.begin() + static_cast<std::ptrdiff_t>(dim));
    return expr;
}

/// The type in which terms of type `type` are added up.
DType sum_type(DType type) {
    if (type == DType::F64) return type;
    return is_float(type) ? DType::F32 : DType::I64;
}

}  // namespace

std::optional<Expr> selected_sum(const Expr& term, std::size_t dim, std::int64_t extent) {
    for (const Comparison& comparison : comparisons(term, dim)) {
        const Expr miss = missed(term, comparison);
        const Known rest = known_of(miss);
        // Where the others are zero or not a number, and all the same, one of them has what all of them have.
        const bool one = !rest.finite;
        if (!rest.zero || (one && depends_on(miss, miss.root(), dim))) continue;
        const auto hit = met(term, dim, comparison);
        if (!hit) continue;
        Expr sum;
        const DType type = sum_type(term.type());
        const std::int32_t place = place_in(sum, term, comparison);
        const std::int32_t value = sum.cast(copy_into(sum, *hit, hit->root()), type);
        const std::int32_t inside = sum.apply(
            Op::And, {sum.apply(Op::Le, {sum.constant(0, DType::I64), place}),
                      sum.apply(Op::Lt, {place, sum.constant(static_cast<double>(extent), DType::I64)})});
        std::int32_t result = sum.apply(Op::Select, {inside, value, sum.constant(0, type)});
        if (one) result = sum.apply(Op::Add, {result, sum.cast(copy_into(sum, miss, miss.root()), type)});
        return folded(without_dim(extracted(sum, result), dim));
    }
    return std::nullopt;
}

void replace_selected_sums(Graph& graph) {
    const std::vector<bool> compares = values_with_comparisons(graph);
    for (Node& node : graph.nodes) {
        const auto* reduce = std::get_if<Reduce>(&node.op);
        if (reduce == nullptr || reduce->op != ReduceOp::Sum || reduce->ragged) continue;
        Reduce rest{ReduceOp::Sum, reduce->extents, with_comparisons(reduce->term, graph, compares)};
        bool changed = false;
        for (std::size_t d = rest.extents.size(); d-- > 0;) {
            if (rest.extents[d] < 2) continue;
            auto sum = selected_sum(rest.term, node.type.shape.size() + d, rest.extents[d]);
            if (!sum) continue;
            rest.term = std::move(*sum);
            rest.extents.erase(rest.extents.begin() + static_cast<std::ptrdiff_t>(d));
            changed = true;
        }
        if (!changed) continue;
        if (!rest.extents.empty()) {
            node.op = std::move(rest);
            continue;
        }
        const std::int32_t result = rest.term.cast(rest.term.root(), node.type.dtype);
        node.op = Pointwise{extracted(rest.term, result)};
    }
}

}  // namespace stretto
