#include <limits>

#include "backends/cases.h"

namespace stretto {
namespace {

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

}  // namespace stretto
