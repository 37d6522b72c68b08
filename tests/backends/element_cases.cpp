#include <limits>

#include "backends/cases.h"

namespace stretto {
namespace {

std::string sizes(const Shape& shape) {
    std::string text;
    for (std::int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
}

/// sigmoid(x) * y + 0.5 at every element.
Case elementwise(DType type, const Shape& shape) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, shape);
    const BufferId y = build.buffer(BufferRole::Parameter, type, shape);
    const BufferId out = build.buffer(BufferRole::Output, type, shape);
    Store store{build.whole(out), {}, {}};
    Expr& e = store.expr;
    const DType wide = type == DType::F64 ? DType::F64 : DType::F32;
    const std::int32_t gate = e.apply(Op::Sigmoid, {e.cast(e.load(build.whole(x)), wide)});
    const std::int32_t product = e.apply(Op::Mul, {gate, e.cast(e.load(build.whole(y)), wide)});
    e.cast(e.apply(Op::Add, {product, e.constant(0.5, wide)}), type);
    build.region(MapRegion{shape, {std::move(store)}});
    // Sigmoid, product, sum: a few roundings in the wide type, one in the narrow one.
    return {"Map_" + std::string(name(type)) + "_" + sizes(shape),
            build.finish(),
            2 * epsilon(type),
            8 * epsilon(wide),
            {}};
}

/// Integer arithmetic with Python's rounding, and a selection by a comparison.
Case integers() {
    CaseBuilder build;
    const Shape shape{6, 37};
    const BufferId x = build.buffer(BufferRole::Input, DType::I64, shape);
    const BufferId out = build.buffer(BufferRole::Output, DType::I32, shape);
    Store store{build.whole(out), {}, {}};
    Expr& e = store.expr;
    const auto number = [&](std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); };
    const std::int32_t value = e.apply(Op::Sub, {e.load(build.whole(x)), e.index(1)});
    const std::int32_t quotient = e.apply(Op::FloorDiv, {value, number(-5)});
    const std::int32_t rest = e.apply(Op::Mod, {value, number(7)});
    const std::int32_t less = e.apply(Op::Lt, DType::Bool, {quotient, rest});
    e.cast(e.apply(Op::Select, DType::I64, {less, quotient, rest}), DType::I32);
    build.region(MapRegion{shape, {std::move(store)}});
    return {"Map_integers", build.finish(), 0, 0, {}};
}

/// Quotients and square roots where their formulas have no plain answer: zeros, infinities, what is next to them.
Case extremes() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    const Elements dividends{0,    -0.0, 1,     -1,    0,      kInfinity, 2,     kInfinity, kNone,
                             1e38, 3e38, 1e-40, 1e-38, 1.5e38, 7,         1e-45, 3.4e38,    -1.2e-38};
    const Elements divisors{1,    5,       0,     0,     0,      2,  kInfinity, kInfinity, 3,
                            1e-3, -2.9e38, 3e-39, 1e-38, 3.4e38, -3, 1e-45,     1e38,      1.1e-38};
    const Shape shape{std::ssize(dividends)};
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, DType::F32, shape);
    const BufferId y = build.buffer(BufferRole::Input, DType::F32, shape);
    const BufferId quotients = build.buffer(BufferRole::Output, DType::F32, shape);
    const BufferId roots = build.buffer(BufferRole::Output, DType::F32, shape);
    Store quotient{build.whole(quotients), {}, {}};
    const std::int32_t dividend = quotient.expr.load(build.whole(x));
    quotient.expr.apply(Op::Div, {dividend, quotient.expr.load(build.whole(y))});
    Store root{build.whole(roots), {}, {}};
    root.expr.apply(Op::Sqrt, {root.expr.load(build.whole(x))});
    build.region(MapRegion{shape, {std::move(quotient), std::move(root)}});
    return {"Map_extremes", build.finish(), 2 * epsilon(DType::F32), 0, [=](BufferMemory& memory) {
                memory.set(x, dividends);
                memory.set(y, divisors);
            }};
}

/// Bits of floats and of integers. The plain evaluator holds 53 bits, so shifts stay short.
Case bits() {
    CaseBuilder build;
    const Shape shape{6, 37};
    const BufferId x = build.buffer(BufferRole::Input, DType::F32, shape);
    const BufferId y = build.buffer(BufferRole::Input, DType::I64, shape);
    const BufferId out = build.buffer(BufferRole::Output, DType::I64, shape);
    Store store{build.whole(out), {}, {}};
    Expr& e = store.expr;
    const std::int32_t pattern = e.cast(e.apply(Op::Bits, DType::I32, {e.load(build.whole(x))}), DType::I64);
    const std::int32_t number = e.load(build.whole(y));
    const std::int32_t seven = e.constant(7, DType::I64);
    const std::int32_t mixed = e.apply(Op::BitXor, {e.apply(Op::ShiftRight, {pattern, seven}), number});
    const std::int32_t masked = e.apply(Op::BitAnd, {mixed, e.constant(0x3fffff, DType::I64)});
    e.apply(Op::BitOr, {masked, e.apply(Op::ShiftLeft, {number, e.constant(23, DType::I64)})});
    build.region(MapRegion{shape, {std::move(store)}});
    return {"Map_bits", build.finish(), 0, 0, {}};
}

/// [x, y] along the last dimension: masked loads of both, chosen by coordinate.
Case concatenation(DType type) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, {5, 3});
    const BufferId y = build.buffer(BufferRole::Input, type, {5, 6});
    const BufferId out = build.buffer(BufferRole::Output, type, {5, 9});
    Store store{build.whole(out), {}, {}};
    Expr& e = store.expr;
    const std::int32_t left = e.load(build.through(x, *padded(identity_map({5, 3}), 1, 0, 6)));
    const std::int32_t right = e.load(build.through(y, *padded(identity_map({5, 6}), 1, 3, 0)));
    const std::int32_t is_left =
        e.apply(Op::Lt, DType::Bool, {e.index(1), e.add({Op::Const, DType::I64, {}, 3, 0})});
    e.apply(Op::Select, type, {is_left, left, right});
    build.region(MapRegion{{5, 9}, {std::move(store)}});
    return {"Map_concatenation_" + std::string(name(type)), build.finish(), 0, 0, {}};
}

/// Beside rows of 48 elements of y, rows of x whose halves have changed places, one of them negative: what is read where is the
/// same for neighbours.
Case rotation(DType type, std::int64_t rows) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, {rows, 48});
    const BufferId y = build.buffer(BufferRole::Input, type, {rows, 48});
    const BufferId out = build.buffer(BufferRole::Output, type, {rows, 96});
    const auto part = [&](BufferId of, Range pieces, Range columns, std::int64_t offset) {
        const std::vector<Atom> column{{2, 0, pieces.begin, pieces.end}, {48, 1, columns.begin, columns.end}};
        return build.through(of, {{{atom(rows, 48)}, column}, offset});
    };
    Store store{build.whole(out), {}, {}};
    Expr& e = store.expr;
    const auto number = [&](std::int64_t value) { return e.add({Op::Const, DType::I64, {}, value, 0}); };
    const DType wide = type == DType::F64 ? type : DType::F32;
    const std::int32_t later = e.load(part(x, {0, 1}, {0, 24}, 24));
    const std::int32_t earlier = e.apply(Op::Neg, wide, {e.load(part(x, {0, 1}, {24, 48}, -24))});
    const std::int32_t column = e.apply(Op::Mod, {e.index(1), number(48)});
    const std::int32_t is_first = e.apply(Op::Lt, DType::Bool, {column, number(24)});
    const std::int32_t is_second = e.apply(Op::Le, DType::Bool, {number(24), column});
    const std::int32_t second = e.apply(Op::Select, wide, {is_second, earlier, e.constant(0, wide)});
    const std::int32_t rotated = e.apply(Op::Select, wide, {is_first, later, second});
    const std::int32_t piece = e.apply(Op::FloorDiv, {e.index(1), number(48)});
    const std::int32_t is_x = e.apply(Op::Lt, DType::Bool, {piece, number(1)});
    e.apply(Op::Select, wide, {is_x, rotated, e.load(part(y, {1, 2}, {0, 48}, 0))});
    build.region(MapRegion{{rows, 96}, {std::move(store)}});
    return {"Map_rotation_" + std::string(name(type)) + "_" + std::to_string(rows), build.finish(), 0, 0, {}};
}

/// `count` rows of a table by number; negative numbers count from the end.
Case gather(DType type, std::int64_t count) {
    CaseBuilder build;
    const BufferId table = build.buffer(BufferRole::Parameter, type, {11, 48});
    const BufferId rows = build.buffer(BufferRole::Input, DType::I64, {count});
    const BufferId out = build.buffer(BufferRole::Output, type, {count, 48});
    Store store{build.whole(out), {}, {}};
    Expr& e = store.expr;
    Access row = build.through(table, {{{atom(count, 0)}, {atom(48, 1)}}, 0});
    row.indirect.push_back({48, 11});
    e.load(std::move(row), {e.load(build.through(rows, {{{atom(count, 1)}, {atom(48, 0)}}, 0}))});
    build.region(MapRegion{{count, 48}, {std::move(store)}});
    return {"Map_gather_" + std::string(name(type)) + "_" + std::to_string(count), build.finish(), 0, 0,
            [=](BufferMemory& memory) {
                Elements numbers;
                for (std::int64_t i = 0; i < count; ++i)
                    numbers.push_back(static_cast<double>(i * 7 % 22 - 11));
                memory.set(rows, numbers);
            }};
}

/// Writes rows of a state at positions that are known on the device only; the other rows stay as they were.
Case scatter(DType type) {
    CaseBuilder build;
    const BufferId values = build.buffer(BufferRole::Input, type, {2, 3, 24});
    const BufferId at = build.buffer(BufferRole::Input, DType::I64, {1});
    const BufferId state = build.buffer(BufferRole::State, type, {2, 9, 3, 24});
    Access target = build.through(state, {{{atom(2, 9 * 72)}, {atom(3, 24)}, {atom(24, 1)}}, 0});
    target.indirect.push_back({72, 9});
    Store store{std::move(target), {}, {}};
    store.indices.push_back(
        store.expr.load(build.through(at, {{{atom(2, 0)}, {atom(3, 0)}, {atom(24, 0)}}, 0})));
    store.expr.load(build.whole(values));
    build.region(MapRegion{{2, 3, 24}, {std::move(store)}});
    return {"Map_scatter_" + std::string(name(type)), build.finish(), 0, 0,
            [at](BufferMemory& memory) { memory.set(at, {-2}); }};
}

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

std::vector<Case> map_cases() {
    std::vector<Case> cases;
    for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
        cases.push_back(elementwise(type, {3, 5, 41}));
        cases.push_back(concatenation(type));
    }
    for (const Shape& shape : {Shape{1}, Shape{1000}, Shape{31, 2}, Shape{2, 1, 257}}) {
        cases.push_back(elementwise(DType::BF16, shape));
    }
    // Neighbours that move together: 8 and 4 of a row.
    cases.push_back(elementwise(DType::BF16, {33, 1024}));
    cases.push_back(elementwise(DType::F32, {3, 11000}));
    cases.push_back(rotation(DType::F64, 3));
    cases.push_back(rotation(DType::BF16, 400));  // in groups
    cases.push_back(integers());
    cases.push_back(extremes());
    cases.push_back(bits());
    for (DType type : {DType::BF16, DType::F32, DType::I64}) {
        cases.push_back(gather(type, 7));
        cases.push_back(scatter(type));
    }
    // Neighbours at one place that data names move together, too.
    cases.push_back(gather(DType::BF16, 700));
    cases.push_back(gather(DType::F32, 700));
    return cases;
}

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
