#include "backends/cases.h"

namespace stretto {
namespace {

/// Row-major, or with the first dimension innermost.
IndexMap laid_out(const Shape& space, bool strided) {
    IndexMap map = identity_map(space);
    std::int64_t stride = 1;
    for (std::size_t d = 0; strided && d < space.size(); stride *= space[d++])
        map.dims[d] = {atom(space[d], stride)};
    return map;
}

/// Reduces the last dimensions of `space`, or the first one where `strided`; the epilogue halves the result.
Case reduction(ReduceOp op, DType type, const Shape& space, std::int32_t kept, bool strided) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, space);
    const Shape outer(space.begin(), space.begin() + kept);
    const BufferId out = build.buffer(BufferRole::Output, type, outer);
    ReduceRegion region;
    region.space = space;
    region.kept = kept;
    Expr& term = region.reductions.emplace_back(Reduction{op, {}}).term;
    term.load(build.through(x, laid_out(space, strided)));
    if (is_narrow_float(type)) term.cast(term.root(), DType::F32);
    IndexMap target = identity_map(outer);
    for (std::size_t d = outer.size(); d < space.size(); ++d) target.dims.push_back({atom(space[d], 0)});
    Store store{build.through(out, target), {}, {}};
    Expr& e = store.expr;
    const DType wide = type == DType::F64 ? DType::F64 : is_float(type) ? DType::F32 : type;
    const std::int32_t total = e.acc(0, wide);
    if (is_float(type)) {
        e.cast(e.apply(Op::Mul, {total, e.constant(0.5, wide)}), type);
    } else {
        e.apply(Op::Add, {total, e.index(0)});
    }
    region.stores.push_back(std::move(store));
    std::int64_t terms = 1;
    for (std::size_t d = static_cast<std::size_t>(kept); d < space.size(); ++d) terms *= space[d];
    build.region(std::move(region));
    const char* names[] = {"sum", "max", "min"};
    // Each addition rounds a partial sum that is at most the sum of the terms' sizes.
    const double absolute = op == ReduceOp::Sum ? 4 * epsilon(wide) * static_cast<double>(terms) : 0;
    return {std::string("Reduce_") + names[static_cast<int>(op)] + "_" + std::string(name(type)) + "_" +
                sizes(space) + "_kept" + std::to_string(kept) + (strided ? "_strided" : ""),
            build.finish(),
            2 * epsilon(type),
            absolute,
            {}};
}

/// Sums in which the terms of whole groups count.
Case sums_of_small_terms_beside_a_large_one() {
    constexpr std::int64_t kRows = 9, kTerms = 16384;
    Case test = reduction(ReduceOp::Sum, DType::F32, {kRows, kTerms}, 1, false);
    test.name = "Reduce_small_terms_beside_a_large_one";
    test.relative = 4 * epsilon(DType::F32);
    test.absolute = 0;
    test.prepare = [](BufferMemory& memory) {
        memory.set(BufferId(0), small_terms_beside_a_large_one(kRows, kTerms));
    };
    return test;
}

/// Several results of each row of the last dimension. In one pass: maximum, sum, sum of squares, minimum; where `chained`, the
/// largest distance from the mean and the sum of exp(x - maximum) in a second pass, and in a third one a sum with both; and, where warps have the
/// rows, what the exponential of each element is of their sum.
Case several_reductions(DType type, const Shape& space, bool strided, bool chained) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, space);
    const Shape rows(space.begin(), space.end() - 1);
    const DType wide = type == DType::F64 ? DType::F64 : is_float(type) ? DType::F32 : type;
    ReduceRegion region{space, static_cast<std::int32_t>(rows.size()), {}, {}, {}, {}};
    const Access element = build.through(x, laid_out(space, strided));
    const auto reduce = [&](ReduceOp op, const auto& term_of) {
        Expr& term = region.reductions.emplace_back(Reduction{op, {}}).term;
        term.cast(term_of(term, term.cast(term.load(element), wide)), wide);
    };
    const auto itself = [](Expr&, std::int32_t value) { return value; };
    const auto square = [](Expr& e, std::int32_t value) { return e.apply(Op::Mul, {value, value}); };
    const auto distance = [&](Expr& e, std::int32_t value) {
        const auto count = e.constant(static_cast<double>(space.back()), wide);
        return e.apply(Op::Abs, {e.apply(Op::Sub, {value, e.apply(Op::Div, {e.acc(1, wide), count})})});
    };
    const auto exponential = [&](Expr& e, std::int32_t value) {
        return e.apply(Op::Exp, {e.apply(Op::Sub, {value, e.acc(0, wide)})});
    };
    reduce(ReduceOp::Max, itself);
    reduce(ReduceOp::Sum, itself);
    if (chained) {
        reduce(ReduceOp::Max, distance);
        reduce(ReduceOp::Sum, exponential);
        reduce(ReduceOp::Sum, [&](Expr& e, std::int32_t value) {
            const auto far = e.apply(Op::Mul, {distance(e, value), e.acc(2, wide)});
            const auto heavy = e.apply(Op::Div, {exponential(e, value), e.acc(3, wide)});
            return square(e, e.apply(Op::Add, {far, heavy}));
        });
    } else {
        reduce(ReduceOp::Sum, square);
        reduce(ReduceOp::Min, itself);
    }
    for (int j = 0; j < static_cast<int>(region.reductions.size()); ++j) {
        const BufferId out = build.buffer(BufferRole::Output, type, rows);
        IndexMap target = identity_map(rows);
        target.dims.push_back({atom(space.back(), 0)});
        Store store{build.through(out, target), {}, {}};
        const std::int32_t result = store.expr.acc(j, wide);
        store.expr.cast(store.expr.apply(Op::Add, {result, result}), type);
        region.stores.push_back(std::move(store));
    }
    constexpr std::int64_t kRowOfAWarp = 32;
    if (chained && !strided && space.back() >= kRowOfAWarp) {
        Store share{build.whole(build.buffer(BufferRole::Output, type, space)), {}, {}};
        Expr& e = share.expr;
        e.cast(e.apply(Op::Div, {exponential(e, e.cast(e.load(element), wide)), e.acc(3, wide)}), type);
        region.element_stores.push_back(std::move(share));
    }
    build.region(std::move(region));
    const auto terms = static_cast<double>(space.back());
    return {std::string(chained ? "Reduce_chained_" : "Reduce_several_") + std::string(name(type)) + "_" +
                sizes(space) + (strided ? "_strided" : ""),
            build.finish(),
            2 * epsilon(type),
            is_float(type) ? 8 * epsilon(wide) * terms : 0,
            {}};
}

/// Sums over parts of a dimension that only the device knows: none, some, all, and bounds outside of it.
Case ragged_sum(DType type, const Shape& space, std::int32_t kept) {
    CaseBuilder build;
    const std::int64_t rows = space[0], extent = space[static_cast<std::size_t>(kept)];
    const BufferId x = build.buffer(BufferRole::Input, type, space);
    const BufferId begins = build.buffer(BufferRole::Input, DType::I64, {rows});
    const BufferId ends = build.buffer(BufferRole::Input, DType::I64, {rows});
    const Shape outer(space.begin(), space.begin() + kept);
    const BufferId out = build.buffer(BufferRole::Output, type, outer);
    IndexMap target = identity_map(outer), bound;
    for (std::size_t d = 0; d < space.size(); ++d) {
        bound.dims.push_back({atom(space[d], d == 0 ? 1 : 0)});
        if (d >= outer.size()) target.dims.push_back({atom(space[d], 0)});
    }
    ReduceRegion region{space, kept, {{}}, {}, {}, {}};
    Expr& term = region.reductions.front().term;
    region.ragged = Ragged{build.through(begins, bound), build.through(ends, bound), extent / 2};
    term.load(build.through(x, identity_map(space)));
    if (is_narrow_float(type)) term.cast(term.root(), DType::F32);
    Store store{build.through(out, target), {}, {}};
    store.expr.cast(store.expr.acc(0, DType::F32), type);
    region.stores.push_back(std::move(store));
    build.region(std::move(region));
    return {"Reduce_ragged_" + std::string(name(type)) + "_" + sizes(space), build.finish(),
            2 * epsilon(type), 4 * epsilon(DType::F32) * static_cast<double>(extent),
            [=](BufferMemory& memory) {
                memory.set(begins, {0, 3, 5, -4, 17});
                memory.set(ends, {1, 3, static_cast<double>(extent), 9, static_cast<double>(extent) + 7});
            }};
}

/// A table's gradient: what earlier work gave, and for each place its part of the sorted rows, mostly none; or of rows whose
/// order is data. Neighbours have one part.
Case segment_sum(DType type, bool ordered) {
    CaseBuilder build;
    constexpr std::int64_t kPlaces = 520, kColumns = 64, kRows = 300;
    const Shape space{kPlaces, kColumns, kRows};
    const BufferId x = build.buffer(BufferRole::Input, type, {kRows, kColumns});
    const BufferId order = build.buffer(BufferRole::Input, DType::I64, {kRows});
    const BufferId bounds = build.buffer(BufferRole::Input, DType::I64, {kPlaces + 1});
    const BufferId before = build.buffer(BufferRole::Input, DType::F32, {kPlaces, kColumns});
    const BufferId out = build.buffer(BufferRole::Output, type, {kPlaces, kColumns});
    const auto over = [&](std::int64_t place, std::int64_t column, std::int64_t row, std::int64_t offset) {
        return IndexMap{{{atom(kPlaces, place)}, {atom(kColumns, column)}, {atom(kRows, row)}}, offset};
    };
    ReduceRegion region{space, 2, {{}}, {}, {}, {}};
    Expr& sum = region.reductions.front().term;
    region.ragged =
        Ragged{build.through(bounds, over(1, 0, 0, 0)), build.through(bounds, over(1, 0, 0, 1)), 1};
    Access term = build.through(x, over(0, 1, ordered ? 0 : kColumns, 0));
    std::vector<std::int32_t> places;
    if (ordered) {
        term.indirect.push_back({kColumns, kRows});
        places.push_back(sum.load(build.through(order, over(0, 0, 1, 0))));
    }
    const std::int32_t value = sum.load(std::move(term), places);
    sum.cast(value, DType::F32);
    Store store{build.through(out, over(kColumns, 1, 0, 0)), {}, {}};
    Expr& e = store.expr;
    e.cast(e.apply(Op::Add, {e.acc(0), e.load(build.through(before, over(kColumns, 1, 0, 0)))}), type);
    region.stores.push_back(std::move(store));
    build.region(std::move(region));
    const double most = 60;
    return {"Reduce_segments_" + std::string(name(type)) + (ordered ? "_ordered" : ""), build.finish(),
            2 * epsilon(type), 4 * epsilon(DType::F32) * most, [=](BufferMemory& memory) {
                Elements begins, numbers;
                for (std::int64_t p = 0; p <= kPlaces; ++p) {
                    const std::int64_t parts[] = {-4, 0, 17, 21, 26};
                    const std::int64_t at = p < 3 ? p / 2 : p < 100 ? 2 : p < 101 ? 3 : 4;
                    const std::int64_t row = p < 300 ? parts[at] : p < kPlaces ? 26 + (p - 300) : kRows + 7;
                    begins.push_back(static_cast<double>(row));
                }
                for (std::int64_t r = 0; r < kRows; ++r)
                    numbers.push_back(static_cast<double>(r * 7 % kRows - (r % 2) * kRows));
                memory.set(bounds, begins);
                memory.set(order, numbers);
            }};
}

}  // namespace

std::vector<Case> reduce_cases() {
    std::vector<Case> cases;
    for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::I64}) {
        for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}) {
            cases.push_back(reduction(op, type, {7, 129}, 1, false));
        }
    }
    cases.push_back(reduction(ReduceOp::Sum, DType::F32, {300, 5}, 1, false));
    cases.push_back(reduction(ReduceOp::Sum, DType::F32, {9, 70}, 1, true));
    cases.push_back(reduction(ReduceOp::Max, DType::BF16, {3, 40, 2, 3}, 2, true));
    cases.push_back(reduction(ReduceOp::Sum, DType::BF16, {2, 3, 1000}, 2, false));
    cases.push_back(reduction(ReduceOp::Sum, DType::F32, {4, 1}, 1, false));
    cases.push_back(reduction(ReduceOp::Sum, DType::F32, {270, 33}, 1, true));
    cases.push_back(reduction(ReduceOp::Min, DType::I64, {70, 67}, 1, true));
    // Neighbouring terms, and neighbouring results, that are loaded together.
    for (DType type : {DType::BF16, DType::F32}) {
        cases.push_back(reduction(ReduceOp::Sum, type, {9, 776}, 1, false));
        cases.push_back(reduction(ReduceOp::Max, type, {72, 150}, 1, true));
        cases.push_back(reduction(ReduceOp::Sum, type, {3, 24, 77}, 2, true));
    }
    cases.push_back(sums_of_small_terms_beside_a_large_one());
    for (DType type : {DType::BF16, DType::F32, DType::F64}) {
        for (const bool chained : {false, true}) {
            cases.push_back(several_reductions(type, {9, 70}, false, chained));   // a warp for each row
            cases.push_back(several_reductions(type, {9, 776}, false, chained));  // in groups
            cases.push_back(several_reductions(type, {1, 1003}, false, chained));
            cases.push_back(several_reductions(type, {2, 150, 7}, false, chained));  // a lane for each row
        }
        cases.push_back(several_reductions(type, {72, 150}, true, false));   // in columns
        cases.push_back(several_reductions(type, {3, 16501}, false, true));  // all warps for a row
    }
    cases.push_back(
        reduction(ReduceOp::Sum, DType::BF16, {4097, 2, 48}, 2, false));  // a lane for each row, in groups
    cases.push_back(several_reductions(DType::F16, {8200, 40}, false, false));
    cases.push_back(several_reductions(DType::I64, {9, 70}, false, false));
    cases.push_back(several_reductions(DType::BF16, {10, 16504}, false, false));
    cases.push_back(several_reductions(DType::BF16, {2, 16520}, false, true));  // held between passes
    cases.push_back(ragged_sum(DType::F32, {5, 24, 40}, 2));
    cases.push_back(ragged_sum(DType::BF16, {5, 33, 3}, 1));
    // Lanes with several results.
    cases.push_back(segment_sum(DType::F32, false));
    cases.push_back(segment_sum(DType::BF16, true));
    cases.push_back(reduction(ReduceOp::Sum, DType::BF16, {32800, 7}, 1, true));
    cases.push_back(reduction(ReduceOp::Max, DType::F64, {32800, 3}, 1, true));
    cases.push_back(several_reductions(DType::BF16, {32800, 2}, true, true));
    return cases;
}

}  // namespace stretto
