#include "simplify/strip_writer.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "graph/inline.h"
#include "simplify/strip_expr.h"
#include "simplify/strip_graph.h"

namespace stretto {
namespace {

constexpr std::size_t kLittleWork = 16;  ///< nodes of an expression
constexpr std::size_t kMostPieces = 8;   ///< a task has room for few buffers

/// Sums of F32, or wider.
DType sum_type(DType type) {
    if (!is_float(type)) return DType::I64;
    return type == DType::F64 ? DType::F64 : DType::F32;
}

class Writer {
public:
    Writer(const Graph& graph, const StripUses& uses, std::int64_t width)
        : from_(graph), uses_(uses), product_(graph[uses.product]), to_(graph, uses, width) {
        const std::int64_t columns = product_.type.shape.back();
        for (std::int64_t begin = 0; begin < columns; begin += width)
            strips_.push_back({begin, std::min(begin + width, columns)});
    }

    Graph run() {
        for (pass_ = 0; pass_ <= uses_.passes; ++pass_) {
            for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
                if (of(i).after == pass_) keep(i);
            }
            if (pass_ == uses_.passes) break;
            for (const Range& strip : strips_) write(strip);
            finish();
        }
        return to_.take();
    }

private:
    /// A picked column: the number of a load in the expression of a picked value.
    using Pick = std::pair<std::size_t, std::size_t>;
    /// A reduction of the strip, of those before it, and of both.
    struct Running {
        ValueId own;
        ValueId before;
        ValueId now;
    };

    [[nodiscard]] const StripValue& of(std::size_t i) const { return uses_.values[i]; }
    [[nodiscard]] ValueId renamed(ValueId value) const { return to_.renamed(value); }
    [[nodiscard]] bool is_wide(std::int32_t source) const {
        return of(ValueId(source).index()).use == StripUse::Wide;
    }
    /// Is value i computed in this pass?
    [[nodiscard]] bool is_made(std::size_t i) const {
        const StripUse use = of(i).use;
        if (use == StripUse::Picked) return pass_ == 0;
        return use != StripUse::None && use != StripUse::Wide && of(i).after == pass_ + 1;
    }

    // ---- What does not vary with the columns

    void keep(std::size_t i) {
        Node node = from_.nodes[i];
        if (of(i).use == StripUse::None) {
            rename_operands(node, [&](ValueId id) { return renamed(id); });
            to_.rename(i, to_.add(std::move(node)));
        } else if (of(i).use == StripUse::Picked) {
            to_.rename(i, to_.add(with_picked(i), node.type));
        }
    }

    Expr with_picked(std::size_t i) {
        const Expr& expr = of(i).expr;
        Expr out;
        std::vector<std::int32_t> done;
        for (std::size_t n = 0; n < expr.nodes.size(); ++n) {
            ExprNode node = expr.nodes[n];
            for (std::int32_t& arg : node.args) arg = done[static_cast<std::size_t>(arg)];
            if (node.op == Op::Load) {
                Access access = expr.accesses[static_cast<std::size_t>(node.integer)];
                if (access.source == uses_.product.value) {
                    const ValueId picked = picks_.at({i, n}).now;
                    const Access whole{
                        picked.value, to_.type(picked).dtype, identity_map(from_.nodes[i].type.shape), {}};
                    done.push_back(out.cast(out.load(whole), node.type));
                    continue;
                }
                access.source = renamed(ValueId(access.source)).value;
                node.integer = out.add_access(std::move(access));
            }
            done.push_back(out.add(std::move(node)));
        }
        return folded(extracted(out, done.back()));
    }

    // ---- A strip

    void write(Range strip) {
        strip_ = strip;
        const bool reduces = std::any_of(from_.nodes.begin(), from_.nodes.end(), [&](const Node& node) {
            const auto i = static_cast<std::size_t>(&node - from_.nodes.data());
            return is_made(i) && !std::holds_alternative<Contract>(node.op);
        });
        to_.begin(strip, reduces);
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
            if (is_made(i)) make(i);
        }
    }

    void make(std::size_t i) {
        const Node& node = from_.nodes[i];
        switch (of(i).use) {
            case StripUse::Reduced:
                return reduce(i);
            case StripUse::Summed:
                return sum(i);
            case StripUse::Picked:
                return pick(i);
            case StripUse::Kept:
                pieces_[i].push_back({std::holds_alternative<Contract>(node.op)
                                          ? add_contract(i, node.type.dtype)
                                          : add_kept_reduction(i),
                                      strip_});
                return;
            case StripUse::None:
            case StripUse::Wide:
                return;
        }
    }

    // ---- What goes on from strip to strip

    void reduce(std::size_t i) {
        const ValueId id(static_cast<std::int64_t>(i));
        const StripValue& value = of(i);
        const auto& op = std::get<Reduce>(from_.nodes[i].op);
        Type type = from_.nodes[i].type;
        if (op.op == ReduceOp::Sum) type.dtype = sum_type(type.dtype);
        Reduce part{op.op, op.extents, to_.of_strip(value.expr, value.dim)};
        part.extents[value.dim - type.shape.size()] = strip_.size();
        if (value.shift.valid()) {
            part.term = shifted(part.term, sums_[value.shift].own, type.shape, part.extents);
        }
        const ValueId own = to_.add({type, std::move(part), from_.nodes[i].source});
        if (!value.shift.valid()) return go_on(sums_[id], op.op, own);
        const Running& maximum = sums_[value.shift];
        Running& sum = sums_[id];
        sum.now = sum.now.valid() ? to_.add(sum_of_shifted({sum.now, maximum.before}, {own, maximum.own},
                                                           maximum.now, type.shape),
                                            type)
                                  : own;
    }

    /// The sum over the one column of the strip, if any, that is picked.
    void pick(std::size_t i) {
        const Expr& expr = of(i).expr;
        for (std::size_t n = 0; n < expr.nodes.size(); ++n) {
            const ExprNode& node = expr.nodes[n];
            if (node.op != Op::Load ||
                expr.accesses[static_cast<std::size_t>(node.integer)].source != uses_.product.value)
                continue;
            Type type = from_.nodes[i].type;
            type.dtype = sum_type(node.type);
            // Like the rows of other reductions, which it can join.
            Expr term = without_unit_dims(picking(expr, node, type), type.shape);
            std::erase(type.shape, 1);
            Reduce part{ReduceOp::Sum, {strip_.size()}, std::move(term)};
            const ValueId own = to_.add({type, std::move(part), from_.nodes[i].source});
            go_on(picks_[{i, n}], ReduceOp::Sum, own);
        }
    }

    /// `expr` with element-wise values that it reads computed in it, where that is little work: a reduction that waits for
    /// nothing but the strip can join those that do.
    [[nodiscard]] Expr from_inputs(Expr expr) const {
        for (;;) {
            std::int32_t failed = -1;
            bool any = false;
            auto next = inlined(
                expr,
                [&](std::int32_t source) -> std::optional<Producer> {
                    const Node& node = from_[ValueId(source)];
                    const auto* op = std::get_if<Pointwise>(&node.op);
                    if (op == nullptr) return std::nullopt;
                    any = true;
                    return Producer{&op->expr, node.type.shape};
                },
                &failed);
            if (!any || !next || next->nodes.size() > kLittleWork) return expr;
            expr = std::move(*next);
        }
    }

    /// Column c of the strip, if `load` reads that one, else zero: over the space of `expr`, then c.
    Expr picking(const Expr& expr, const ExprNode& load, const Type& type) {
        const std::size_t rank = type.shape.size();
        const std::int64_t columns = product_.type.shape.back();
        Expr term;
        Expr place = from_inputs(extracted(expr, load.args.front()));
        for (Access& access : place.accesses) {
            access.source = renamed(ValueId(access.source)).value;
            access.map = inserted_dim(access.map, rank, strip_.size());
        }
        std::int32_t picked = copy_into(term, place, place.root());
        const auto zero = term.constant(0, DType::I64);
        const auto whole = term.constant(static_cast<double>(columns), DType::I64);
        // Negative ones count from the end.
        picked = term.apply(Op::Select, {term.apply(Op::Lt, DType::Bool, {picked, zero}),
                                         term.apply(Op::Add, {picked, whole}), picked});
        const auto begin = term.constant(static_cast<double>(strip_.begin), DType::I64);
        const auto own = term.apply(Op::Add, {term.index(static_cast<int>(rank)), begin});
        Access access = expr.accesses[static_cast<std::size_t>(load.integer)];
        access.indirect.clear();
        access.map.dims.push_back({atom(columns, 1)});
        access = to_.in_strip(std::move(access), rank);
        const auto value = term.cast(term.load(std::move(access)), type.dtype);
        term.apply(Op::Select,
                   {term.apply(Op::Eq, DType::Bool, {picked, own}), value, term.constant(0, type.dtype)});
        return folded(term);
    }

    void sum(std::size_t i) {
        const ValueId own = add_contract(i, sum_type(from_.nodes[i].type.dtype));
        go_on(sums_[ValueId(static_cast<std::int64_t>(i))], ReduceOp::Sum, own);
    }

    void go_on(Running& running, ReduceOp op, ValueId own) {
        running.own = own;
        running.before = running.now;
        if (!running.before.valid()) {
            running.now = own;
            return;
        }
        constexpr std::array<Op, 3> kOps{Op::Add, Op::Max, Op::Min};
        Expr both;
        both.apply(kOps[static_cast<std::size_t>(op)], {to_.load(both, running.before), to_.load(both, own)});
        running.now = to_.add(std::move(both), to_.type(own));
    }

    // ---- What keeps the columns

    ValueId add_kept_reduction(std::size_t i) {
        Node node = from_.nodes[i];
        auto& op = std::get<Reduce>(node.op);
        node.type.shape[of(i).dim] = strip_.size();
        op.term = to_.of_strip(of(i).expr, of(i).dim);
        return to_.add(std::move(node));
    }

    ValueId add_contract(std::size_t i, DType type) {
        Node node = from_.nodes[i];
        auto& op = std::get<Contract>(node.op);
        const StripValue& value = of(i);
        const bool kept = value.use == StripUse::Kept;
        const std::size_t dim = kept ? value.dim + 3 - node.type.shape.size() : 3;
        if (kept) node.type.shape[value.dim] = strip_.size();
        op.space[dim] = strip_.size();
        for (Access* access : {&op.a, &op.b}) {
            const ValueId source(access->source);
            if (is_wide(access->source)) {
                *access = to_.in_strip(*access, dim);
            } else {
                access->source = renamed(source).value;
                access->map = cut(access->map, dim, strip_);
            }
        }
        node.type.dtype = type;
        return to_.add(std::move(node));
    }

    ValueId put_together(std::vector<StripPiece> pieces, Type type, std::size_t dim) {
        while (pieces.size() > 1) {
            std::vector<StripPiece> joined;
            for (std::size_t i = 0; i < pieces.size(); i += kMostPieces) {
                const std::size_t end = std::min(i + kMostPieces, pieces.size());
                const std::vector<StripPiece> some(pieces.begin() + static_cast<std::ptrdiff_t>(i),
                                                   pieces.begin() + static_cast<std::ptrdiff_t>(end));
                const Range range{some.front().range.begin, some.back().range.end};
                type.shape[dim] = range.size();
                joined.push_back({some.size() == 1 ? some.front().value
                                                   : to_.add(stretto::put_together(some, type, dim), type),
                                  range});
            }
            pieces = std::move(joined);
        }
        return pieces.front().value;
    }

    // ---- The end of a pass

    void finish() {
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
            const Node& node = from_.nodes[i];
            const StripUse use = of(i).use;
            if (!is_made(i) || use == StripUse::Picked) continue;
            if (use == StripUse::Kept) {
                to_.rename(i, put_together(std::move(pieces_[i]), node.type, of(i).dim));
                continue;
            }
            const ValueId now = sums_.at(ValueId(static_cast<std::int64_t>(i))).now;
            Expr result;
            to_.load(result, now);
            to_.rename(i, to_.type(now) == node.type ? now : to_.add(std::move(result), node.type));
        }
    }

    const Graph& from_;
    const StripUses& uses_;
    const Node& product_;
    StripGraph to_;
    std::vector<Range> strips_;
    int pass_ = 0;
    std::map<std::size_t, std::vector<StripPiece>> pieces_;
    std::map<ValueId, Running> sums_;
    std::map<Pick, Running> picks_;
    Range strip_;
};

}  // namespace

Graph with_strips(const Graph& graph, const StripUses& uses, std::int64_t width) {
    return Writer(graph, uses, width).run();
}

}  // namespace stretto
