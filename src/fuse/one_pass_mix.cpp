#include "fuse/one_pass_mix.h"

#include <algorithm>

#include "fuse/one_pass_use.h"
#include "simplify/selected_sums.h"

namespace stretto {
namespace {

constexpr std::size_t kColumn = 3;

/// A map in which digits that do not move are of one form.
IndexMap plain(IndexMap map) {
    for (auto& digits : map.dims) {
        std::int64_t extent = 1;
        for (const Atom& digit : digits) extent *= digit.extent;
        const bool moves = std::any_of(digits.begin(), digits.end(), [](const Atom& digit) {
            return digit.masked() || (digit.extent > 1 && digit.stride != 0);
        });
        if (!moves) digits = {atom(extent, 0)};
    }
    return normalized(std::move(map));
}

/// The same expression over a space without columns, with which it does not vary.
Expr without_columns(Expr expr) {
    for (Access& access : expr.accesses) access.map.dims.resize(kColumn);
    return expr;
}

class Mixer {
public:
    Mixer(const Expr& weight, const Access& matrix, const WeightSource& source)
        : weight_(weight), matrix_(matrix), source_(source) {}

    std::optional<Expr> run() {
        const auto result = mixed(weight_.root());
        if (!result) return std::nullopt;
        return folded(extracted(out_, *result));
    }

private:
    using Mixed = std::optional<std::int32_t>;  ///< a node of `out_`

    [[nodiscard]] const ExprNode& node(std::int32_t at) const {
        return weight_.nodes[static_cast<std::size_t>(at)];
    }
    [[nodiscard]] bool is_fixed(std::int32_t at) const { return !depends_on(weight_, at, kColumn); }

    std::int32_t fixed(std::int32_t at) {
        const Expr part = without_columns(extracted(weight_, at));
        return copy_into(out_, part, part.root());
    }

    Mixed mixed(std::int32_t at) {
        const ExprNode& n = node(at);
        switch (n.op) {
            case Op::Add:
            case Op::Sub: {
                const Mixed a = mixed(n.args[0]);
                const Mixed b = mixed(n.args[1]);
                return a && b ? Mixed(out_.apply(n.op, {*a, *b})) : std::nullopt;
            }
            case Op::Neg: {
                const Mixed a = mixed(n.args[0]);
                return a ? Mixed(out_.apply(Op::Neg, {*a})) : std::nullopt;
            }
            case Op::Cast:
                return is_float(n.type) && is_float(node(n.args[0]).type) ? mixed(n.args[0]) : selected(at);
            case Op::Mul:
                if (is_fixed(n.args[0])) return with(Op::Mul, mixed(n.args[1]), n.args[0]);
                if (is_fixed(n.args[1])) return with(Op::Mul, mixed(n.args[0]), n.args[1]);
                return selected(at);
            case Op::Div:
                return is_fixed(n.args[1]) ? with(Op::Div, mixed(n.args[0]), n.args[1]) : selected(at);
            case Op::Select: {
                if (!is_fixed(n.args[0])) return selected(at);
                const Mixed a = mixed(n.args[1]);
                const Mixed b = mixed(n.args[2]);
                return a && b ? Mixed(out_.apply(Op::Select, {fixed(n.args[0]), *a, *b})) : std::nullopt;
            }
            case Op::Const:
                return n.value == 0 ? Mixed(out_.constant(0, DType::F32)) : std::nullopt;
            case Op::Exp:
                return is_shifted_result(n.args[0]) ? Mixed(exponential(n.args[0])) : std::nullopt;
            default:
                return selected(at);
        }
    }

    Mixed with(Op op, const Mixed& sum, std::int32_t factor) {
        return sum ? Mixed(out_.apply(op, {*sum, fixed(factor)})) : std::nullopt;
    }

    [[nodiscard]] bool is_result(std::int32_t at) const {
        if (node(at).op != Op::Load || !node(at).args.empty()) return false;
        const Access& access = weight_.accesses[static_cast<std::size_t>(node(at).integer)];
        const IndexMap own{{{atom(1, 0)},
                            {atom(source_.rows, source_.columns)},
                            {atom(source_.depth, 0)},
                            {atom(source_.columns, 1)}},
                           0};
        return access.source == source_.results.value && has_same_places(access.map, own);
    }

    /// A result plus and minus values that do not vary with the column?
    [[nodiscard]] bool is_shifted_result(std::int32_t at) const {
        const ExprNode& n = node(at);
        if (n.op == Op::Cast && is_float(n.type)) return is_shifted_result(n.args[0]);
        if (n.op == Op::Sub) return is_fixed(n.args[1]) && is_shifted_result(n.args[0]);
        if (n.op == Op::Add) {
            return (is_fixed(n.args[1]) && is_shifted_result(n.args[0])) ||
                   (is_fixed(n.args[0]) && is_shifted_result(n.args[1]));
        }
        return is_result(at);
    }

    /// exp(result - shift) is exp(result - maximum) times exp(maximum - shift).
    std::int32_t exponential(std::int32_t exponent) {
        const Expr part = extracted(weight_, exponent);
        const Access most{
            source_.maximum.value,
            DType::F32,
            {{{atom(1, 0)}, {atom(source_.rows, 1)}, {atom(source_.depth, 0)}, {atom(source_.columns, 0)}},
             0},
            {}};
        const Expr shifted = rewritten(part, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            const ExprNode& load = part.nodes[i];
            const bool result =
                load.op == Op::Load &&
                part.accesses[static_cast<std::size_t>(load.integer)].source == source_.results.value;
            return result ? std::optional(out.load(most)) : std::nullopt;
        });
        const Expr factor = without_columns(shifted);
        const std::int32_t scale = out_.apply(Op::Exp, {copy_into(out_, factor, factor.root())});
        const Access mixed{ProductUse::kMixed,
                           DType::F32,
                           {{{atom(1, 0)}, {atom(source_.rows, source_.depth)}, {atom(source_.depth, 1)}}, 0},
                           {}};
        return out_.apply(Op::Mul, {scale, out_.load(mixed)});
    }

    /// A term that is zero but in one column takes that row of the matrix.
    Mixed selected(std::int32_t at) {
        Expr term = extracted(weight_, at);
        const std::int32_t root = term.root();
        if (term.type() != DType::F32) return std::nullopt;
        const std::int32_t counts = term.apply(Op::Ne, DType::Bool, {root, term.constant(0, DType::F32)});
        const std::int32_t element = term.cast(term.load(matrix_), DType::F32);
        const std::int32_t product = term.apply(Op::Mul, {root, element});
        term.apply(Op::Select, {counts, product, term.constant(0, DType::F32)});
        const auto sum = selected_sum(term, kColumn, source_.columns);
        return sum ? Mixed(copy_into(out_, *sum, sum->root())) : std::nullopt;
    }

    const Expr& weight_;
    const Access& matrix_;
    const WeightSource& source_;
    Expr out_;
};

}  // namespace

bool has_same_places(const IndexMap& a, const IndexMap& b) { return plain(a) == plain(b); }

std::optional<Expr> mixed_rows(const Expr& weight, const Access& matrix, const WeightSource& source) {
    return Mixer(weight, matrix, source).run();
}

}  // namespace stretto
