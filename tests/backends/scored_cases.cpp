#include <cmath>

#include "abi/abi.h"
#include "backends/cases.h"

namespace stretto {
namespace {

struct Sizes {
    std::int64_t b = 1;
    std::int64_t r = 70;
    std::int64_t n = 64;
    std::int64_t c = 150;
    std::int64_t e = 64;
};

/// Which positions a row sees.
enum class Sees : std::uint8_t { All, Before, After, Window };
constexpr std::int64_t kWindow = 20;

/// Of an operand's two dimensions the second lies contiguous, or the first, or the second in longer rows of odd length.
enum class Layout : std::uint8_t { Rows, Columns, OddRows };

constexpr double kHidden = -3.4e38;

class ScoredBuilder {
public:
    ScoredBuilder(DType type, const Sizes& s, Sees sees, std::int32_t rows)
        : type_(type), s_(s), sees_(sees) {
        region_.space = {s.b, s.r, s.n, s.c, s.e};
        region_.tile = {rows, rows == 64 ? 128 : 64, 2};
        region_.band = {sees == Sees::After    ? 0
                        : sees == Sees::Window ? 1 - kWindow
                                               : 1 - s.r,
                        sees == Sees::Before || sees == Sees::Window ? 1 : s.c};
    }

    void score(Layout left, Layout right) {
        region_.scores.push_back({operand(s_.r, s_.e, 1, 4, left), operand(s_.c, s_.e, 3, 4, right)});
    }

    /// One more sum, of what is multiplied with this from here on.
    void sum(Layout factor) {
        region_.sums.emplace_back();
        region_.sums.back().factor = operand(s_.c, s_.n, 3, 2, factor);
    }
    /// One whose factor is the right side of a score.
    void sum_of_right(std::size_t score) {
        region_.sums.emplace_back();
        Access factor = region_.scores[score].right;
        std::swap(factor.map.dims[2], factor.map.dims[4]);
        region_.sums.back().factor = factor;
    }

    /// exp(visible score / 4 - shift[r]) / norm[r], of which norm is at least 1.
    std::int32_t probability() {
        Expr& w = weight();
        const std::int32_t shifted = w.apply(Op::Sub, {visible_score(), row_value()});
        const std::int32_t size = w.apply(Op::Abs, {row_value()});
        const std::int32_t norm = w.apply(Op::Add, {size, w.constant(1, DType::F32)});
        return w.apply(Op::Div, {w.apply(Op::Exp, {shifted}), norm});
    }

    /// score / 4, zero where hidden.
    void seen_score() { hidden(weight().apply(Op::Mul, {weight().acc(0), quarter()}), 0); }

    /// The sum of score * value_i[c] / 4 of `count` values of each position, zero where hidden.
    void scores_of_values(int count) {
        Expr& w = weight();
        std::int32_t all = -1;
        for (int i = 0; i < count; ++i) {
            const std::int32_t score = w.apply(Op::Mul, {w.acc(0), quarter()});
            const std::int32_t term = w.apply(Op::Mul, {score, context_value()});
            all = i == 0 ? term : w.apply(Op::Add, {all, term});
        }
        hidden(all, 0);
    }

    std::int32_t visible_score() {
        Expr& w = weight();
        const std::int32_t score = w.apply(Op::Mul, {w.acc(0), quarter()});
        return hidden(score, kHidden);
    }

    /// (second score * probability - probability * value[c]), zero where hidden, / 4.
    void derivative() {
        Expr& w = weight();
        const std::int32_t p = probability();
        const std::int32_t product = w.apply(Op::Mul, {w.acc(1), p});
        const std::int32_t less = w.apply(Op::Mul, {p, context_value()});
        const std::int32_t seen = hidden(w.apply(Op::Sub, {product, less}), 0);
        w.apply(Op::Mul, {seen, quarter()});
    }

    /// The softmax of the visible scores, with what stores its statistics.
    void softmax() {
        visible_score();
        region_.softmax = true;
        for (int number : {0, 1}) {
            const BufferId out = build_.buffer(BufferRole::Output, DType::F32, {s_.b, s_.r});
            Store store{build_.through(out, map(s_.r, 1, 0, 0)), {}, {}};
            store.expr.acc(number);
            region_.row_stores.push_back(std::move(store));
        }
    }

    void reduce(ReduceOp op) {
        region_.op = op;
        region_.space[2] = 1;
        region_.sums.emplace_back();
    }

    /// results[s][b, r, n] = Acc(s) * scale[b, r] in `type`.
    Case finish(DType type, const std::string& what) {
        const std::int64_t n = region_.space[2];
        const BufferId scale = build_.buffer(BufferRole::Input, DType::F32, {s_.b, s_.r});
        for (std::size_t s = 0; s < region_.sums.size(); ++s) {
            const BufferId out = build_.buffer(BufferRole::Output, type, {s_.b, s_.r, n});
            Store store{build_.through(out, map(s_.r * n, n, 1, 0)), {}, {}};
            const std::int32_t factor = store.expr.load(build_.through(scale, map(s_.r, 1, 0, 0)));
            store.expr.apply(Op::Mul, {store.expr.acc(static_cast<int>(s)), factor});
            region_.stores.push_back(std::move(store));
            for (Access& access : region_.sums[s].weight.accesses) access.map.dims[2] = {atom(n, 0)};
        }
        for (Score& score : region_.scores) score.left.map.dims[2] = score.right.map.dims[2] = {atom(n, 0)};
        build_.region(std::move(region_));
        // Scores are F32 sums of E products, of which the weights are exponentials; a weight near the middle of two values
        // of its type may be rounded to either.
        const double sums = 16 * epsilon(DType::F32) * static_cast<double>(s_.e + s_.c);
        return {"Scored_" + std::string(name(type_)) + "_" + what,
                build_.finish(),
                2 * epsilon(type) + sums,
                2 * epsilon(type_) + sums,
                {}};
    }

private:
    Expr& weight() { return region_.sums.back().weight; }
    std::int32_t quarter() { return weight().constant(0.25, DType::F32); }

    [[nodiscard]] IndexMap map(std::int64_t b, std::int64_t r, std::int64_t n, std::int64_t c) const {
        return {
            {{atom(s_.b, b)}, {atom(s_.r, r)}, {atom(region_.space[2], n)}, {atom(s_.c, c)}, {atom(s_.e, 0)}},
            0};
    }

    /// rows x columns in each batch entry, along these dimensions of the region.
    Access operand(std::int64_t rows, std::int64_t columns, std::size_t row, std::size_t column,
                   Layout layout) {
        const std::int64_t stride =
            layout == Layout::Columns ? 1 : columns + (layout == Layout::OddRows ? 3 : 0);
        const std::int64_t step = layout == Layout::Columns ? rows : 1;
        const std::int64_t size = layout == Layout::Columns ? rows * columns : rows * stride;
        const BufferId buffer = build_.buffer(BufferRole::Input, type_, {s_.b, size});
        IndexMap lies = map(size, 0, 0, 0);
        lies.dims[row] = {atom(rows, stride)};
        lies.dims[column] = {atom(columns, step)};
        return build_.through(buffer, lies);
    }

    std::int32_t row_value() {
        const BufferId values = build_.buffer(BufferRole::Input, DType::F32, {s_.b, s_.r});
        return weight().load(build_.through(values, map(s_.r, 1, 0, 0)));
    }
    std::int32_t context_value() {
        const BufferId values = build_.buffer(BufferRole::Input, DType::F32, {s_.b, s_.c});
        return weight().load(build_.through(values, map(s_.c, 0, 0, 1)));
    }

    std::int32_t hidden(std::int32_t value, double otherwise) {
        Expr& w = weight();
        if (sees_ == Sees::All) return value;
        const std::int32_t r = w.index(1);
        const std::int32_t c = w.index(3);
        std::int32_t seen = sees_ == Sees::After ? w.apply(Op::Le, DType::Bool, {r, c})
                                                 : w.apply(Op::Le, DType::Bool, {c, r});
        if (sees_ == Sees::Window) {
            const std::int32_t first = w.apply(Op::Sub, {r, w.constant(kWindow, DType::I64)});
            seen = w.apply(Op::And, {seen, w.apply(Op::Lt, DType::Bool, {first, c})});
        }
        return w.apply(Op::Select, DType::F32, {seen, value, w.constant(otherwise, DType::F32)});
    }

    CaseBuilder build_;
    DType type_;
    Sizes s_;
    Sees sees_;
    ScoredRegion region_;
};

Case mixed(DType type, const Sizes& s, Sees sees, std::int32_t rows, Layout layout, const std::string& what) {
    ScoredBuilder build(type, s, sees, rows);
    build.score(layout, layout);
    build.sum(layout);
    build.probability();
    return build.finish(type, what);
}

Case differentiated(DType type, const Sizes& s, Sees sees, std::int32_t rows, const std::string& what) {
    ScoredBuilder build(type, s, sees, rows);
    build.score(Layout::Rows, Layout::Rows);
    build.score(Layout::Columns, Layout::Rows);
    build.sum(Layout::Rows);
    build.derivative();
    return build.finish(DType::F32, what);
}

/// Two sums over the same scores: of probabilities, and of their derivatives, whose factor is the second score's right side.
Case both(DType type, const Sizes& s, Sees sees, std::int32_t rows, Layout layout, const std::string& what) {
    ScoredBuilder build(type, s, sees, rows);
    build.score(Layout::Rows, layout);
    build.score(Layout::Rows, layout);
    build.sum(Layout::Rows);
    build.probability();
    build.sum_of_right(1);
    build.derivative();
    return build.finish(DType::F32, what);
}

/// Two sums of one score each of whose factors is its right side.
Case twice(const Sizes& s, const std::string& what) {
    ScoredBuilder build(DType::BF16, s, Sees::Before, 64);
    build.score(Layout::Rows, Layout::Rows);
    build.sum_of_right(0);
    build.probability();
    build.sum_of_right(0);
    build.seen_score();
    return build.finish(DType::F32, what);
}

Case softmax(const Sizes& s, Sees sees, std::int32_t rows, const std::string& what) {
    ScoredBuilder build(DType::BF16, s, sees, rows);
    build.score(Layout::Rows, Layout::Rows);
    build.sum(Layout::Rows);
    build.softmax();
    return build.finish(DType::BF16, what);
}

/// More values of each position than are kept in shared memory.
Case valued(const Sizes& s, const std::string& what) {
    ScoredBuilder build(DType::BF16, s, Sees::Before, 64);
    build.score(Layout::Rows, Layout::Rows);
    build.sum(Layout::Rows);
    build.scores_of_values(abi::kScoredPositionBytes / 4 + 1);
    return build.finish(DType::F32, what);
}

Case reduced(ReduceOp op, const Sizes& s, Sees sees, const std::string& what) {
    ScoredBuilder build(DType::BF16, s, sees, 64);
    build.reduce(op);
    build.score(Layout::Rows, Layout::Rows);
    if (op == ReduceOp::Sum) {
        build.probability();
    } else {
        build.visible_score();
    }
    return build.finish(DType::F32, what);
}

}  // namespace

std::vector<Case> scored_cases() {
    std::vector<Case> cases;
    for (DType type : {DType::BF16, DType::F16}) {
        cases.push_back(mixed(type, {}, Sees::All, 64, Layout::Rows, "mix"));
        cases.push_back(differentiated(type, {}, Sees::Before, 64, "derivative_before"));
    }
    cases.push_back(mixed(DType::BF16, {}, Sees::Before, 64, Layout::Columns, "mix_before_columns"));
    cases.push_back(mixed(DType::BF16, {}, Sees::Window, 64, Layout::OddRows, "mix_window_odd_rows"));
    cases.push_back(mixed(DType::BF16, {2, 130, 64, 140, 32}, Sees::After, 128, Layout::Rows, "mix_after"));
    cases.push_back(differentiated(DType::BF16, {}, Sees::After, 64, "derivative_after"));
    cases.push_back(differentiated(DType::BF16, {1, 66, 128, 70, 128}, Sees::All, 128, "derivative_wide"));
    cases.push_back(both(DType::BF16, {1, 40, 64, 131, 64}, Sees::Before, 64, Layout::Rows, "both_before"));
    cases.push_back(both(DType::F16, {2, 40, 48, 131, 48}, Sees::After, 64, Layout::Columns, "both_columns"));
    cases.push_back(
        both(DType::BF16, {1, 40, 32, 131, 32}, Sees::All, 128, Layout::OddRows, "both_odd_rows"));
    cases.push_back(twice({1, 40, 64, 131, 64}, "twice"));
    for (const auto& [n, e] : {std::pair{8, 16}, {40, 48}, {48, 32}, {96, 80}, {128, 128}}) {
        cases.push_back(mixed(DType::BF16, {1, 20, n, 131, e}, Sees::All, 64, Layout::Rows,
                              "mix_" + std::to_string(n) + "_" + std::to_string(e)));
    }
    cases.push_back(softmax({}, Sees::All, 64, "softmax"));
    cases.push_back(softmax({1, 70, 40, 200, 48}, Sees::Before, 64, "softmax_before"));
    cases.push_back(softmax({2, 130, 128, 140, 32}, Sees::Window, 128, "softmax_window"));
    // Contexts of whole blocks, some of which are whole within the band.
    const Sizes heads_of_48{1, 70, 48, 128, 48};
    const Sizes heads_of_64{1, 70, 64, 128, 64};
    cases.push_back(softmax(heads_of_48, Sees::Before, 64, "softmax_before_whole"));
    cases.push_back(softmax({1, 40, 96, 192, 80}, Sees::All, 64, "softmax_whole"));
    cases.push_back(both(DType::BF16, heads_of_48, Sees::After, 64, Layout::Rows, "both_after_whole"));
    cases.push_back(both(DType::F16, heads_of_64, Sees::Before, 64, Layout::Columns, "both_columns_whole"));
    cases.push_back(differentiated(DType::BF16, heads_of_64, Sees::Before, 64, "derivative_whole"));
    cases.push_back(
        differentiated(DType::BF16, {1, 66, 128, 192, 128}, Sees::After, 128, "derivative_wide_whole"));
    cases.push_back(
        mixed(DType::BF16, {1, 40, 32, 128, 16}, Sees::After, 64, Layout::Columns, "mix_columns_whole"));
    cases.push_back(valued({1, 40, 32, 131, 32}, "values"));
    cases.push_back(reduced(ReduceOp::Sum, {}, Sees::Before, "sum_before"));
    cases.push_back(reduced(ReduceOp::Max, {}, Sees::Window, "max_window"));
    cases.push_back(reduced(ReduceOp::Min, {}, Sees::All, "min"));
    return cases;
}

}  // namespace stretto
