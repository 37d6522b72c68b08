#include "backends/cases.h"
#include "base/error.h"
#include "fuse/product_split.h"

namespace stretto {
namespace {

struct Sizes {
    std::int64_t b = 1;
    std::int64_t m = 1;
    std::int64_t n = 1;
    std::int64_t k = 1;
};

std::string text(const Sizes& s) {
    return std::to_string(s.b) + "x" + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" +
           std::to_string(s.k);
}

DType wide(DType type) { return type == DType::F64 ? DType::F64 : DType::F32; }

/// Maps over [b, m, n, k] of a left side, a row of weights, and a result.
IndexMap left_map(const Sizes& s) {
    return {{{atom(s.b, s.m * s.k)}, {atom(s.m, s.k)}, {atom(s.n, 0)}, {atom(s.k, 1)}}, 0};
}
IndexMap weight_map(const Sizes& s) {
    return {{{atom(s.b, s.n * s.k)}, {atom(s.m, 0)}, {atom(s.n, s.k)}, {atom(s.k, 1)}}, 0};
}
IndexMap transposed_weight_map(const Sizes& s) {
    return {{{atom(s.b, s.n * s.k)}, {atom(s.m, 0)}, {atom(s.n, 1)}, {atom(s.k, s.n)}}, 0};
}
IndexMap result_map(const Sizes& s) {
    return {{{atom(s.b, s.m * s.n)}, {atom(s.m, s.n)}, {atom(s.n, 1)}, {atom(s.k, 0)}}, 0};
}

/// An error of the sum: K products of an F32 accumulation, each with a rounding of a partial sum.
double accumulation_error(DType type, const Sizes& s) {
    return 4 * epsilon(wide(type)) * static_cast<double>(s.k);
}

MatMulRegion product(const CaseBuilder& build, const Sizes& s, DType type, BufferId left,
                     std::vector<Access> weights, bool streamed) {
    MatMulRegion region;
    region.space = {s.b, s.m, s.n, s.k};
    region.a.load(build.through(left, left_map(s)));
    region.a_type = type;
    region.weights = std::move(weights);
    region.streamed = streamed;
    return region;
}

enum class Weights : std::uint8_t { Streamed, Direct, Transposed };

/// One product; its store rounds the accumulator.
Case plain(Weights weights, DType type, const Sizes& s) {
    CaseBuilder build;
    const BufferId left = build.buffer(BufferRole::Input, type, {s.b, s.m, s.k});
    const BufferId weight = build.buffer(BufferRole::Parameter, type, {s.b, s.n, s.k});
    const BufferId out = build.buffer(BufferRole::Output, type, {s.b, s.m, s.n});
    const Access rows =
        build.through(weight, weights == Weights::Transposed ? transposed_weight_map(s) : weight_map(s));
    MatMulRegion region = product(build, s, type, left, {rows}, weights == Weights::Streamed);
    Store store{build.through(out, result_map(s)), {}, {}};
    store.expr.acc(0, wide(type));
    region.stores.push_back(std::move(store));
    build.region(std::move(region));
    const char* names[] = {"streamed", "direct", "transposed"};
    return {std::string("MatMul_") + names[static_cast<int>(weights)] + "_" + std::string(name(type)) + "_" +
                text(s),
            build.finish(),
            2 * epsilon(type),
            accumulation_error(type, s),
            {}};
}

/// x * rsqrt(mean(x^2) + eps) * scale on the left, two weights, silu(first) * second + residual at the end.
Case normalized_and_gated(DType type, const Sizes& s) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, {s.m, s.k});
    const BufferId scale = build.buffer(BufferRole::Parameter, type, {s.k});
    const BufferId gate = build.buffer(BufferRole::Parameter, type, {s.n, s.k});
    const BufferId up = build.buffer(BufferRole::Parameter, type, {s.n, s.k});
    const BufferId residual = build.buffer(BufferRole::Input, type, {s.m, s.n});
    const BufferId out = build.buffer(BufferRole::Output, type, {s.m, s.n});
    MatMulRegion region;
    region.space = {1, s.m, s.n, s.k};
    region.a_type = type;
    region.streamed = true;
    const auto load_x = [&](Expr& e) { return e.cast(e.load(build.through(x, left_map(s))), DType::F32); };
    RowStat stat;
    const std::int32_t term = load_x(stat.term);
    stat.term.apply(Op::Mul, {term, term});
    Expr& f = stat.finish;
    const std::int32_t mean =
        f.apply(Op::Mul, {f.acc(0), f.constant(1.0 / static_cast<double>(s.k), DType::F32)});
    f.apply(Op::Rsqrt, {f.apply(Op::Add, {mean, f.constant(1e-5, DType::F32)})});
    region.stats.push_back(std::move(stat));
    const std::int32_t normal = region.a.apply(Op::Mul, {load_x(region.a), region.a.stat(0)});
    const Access scales =
        build.through(scale, {{{atom(1, 0)}, {atom(s.m, 0)}, {atom(s.n, 0)}, {atom(s.k, 1)}}, 0});
    region.a.apply(Op::Mul, {normal, region.a.cast(region.a.load(scales), DType::F32)});
    region.weights = {build.through(gate, weight_map(s)), build.through(up, weight_map(s))};
    Store store{build.through(out, result_map(s)), {}, {}};
    Expr& e = store.expr;
    const std::int32_t first = e.acc(0);
    const std::int32_t silu = e.apply(Op::Mul, {first, e.apply(Op::Sigmoid, {first})});
    const std::int32_t both = e.apply(Op::Mul, {silu, e.acc(1)});
    e.apply(Op::Add, {both, e.cast(e.load(build.through(residual, result_map(s))), DType::F32)});
    region.stores.push_back(std::move(store));
    build.region(std::move(region));
    // A left value next to a rounding boundary may round the other way: one unit of its type in one product, which a
    // second product multiplies.
    return {"MatMul_normalized_gated_" + std::string(name(type)) + "_" + text(s),
            build.finish(),
            2 * epsilon(type),
            2 * epsilon(type) + 4 * accumulation_error(type, s),
            {}};
}

/// (x - mean(x)) w, times rsqrt(mean((x - mean(x))^2) + eps) at the end: the second statistic's terms need the first one,
/// and only the store needs the second.
Case scaled_at_the_end(Weights weights, DType type, const Sizes& s) {
    CaseBuilder build;
    const BufferId x = build.buffer(BufferRole::Input, type, {s.m, s.k});
    const BufferId weight = build.buffer(BufferRole::Parameter, type, {s.n, s.k});
    const BufferId out = build.buffer(BufferRole::Output, type, {s.m, s.n});
    const auto load_x = [&](Expr& e) { return e.cast(e.load(build.through(x, left_map(s))), DType::F32); };
    const auto centred = [&](Expr& e) { return e.apply(Op::Sub, {load_x(e), e.stat(0)}); };
    const auto mean = [&](Expr& e) {
        return e.apply(Op::Mul, {e.acc(0), e.constant(1.0 / static_cast<double>(s.k), DType::F32)});
    };
    RowStat first;
    load_x(first.term);
    mean(first.finish);
    RowStat second;
    const std::int32_t distance = centred(second.term);
    second.term.apply(Op::Mul, {distance, distance});
    Expr& finish = second.finish;
    finish.apply(Op::Rsqrt, {finish.apply(Op::Add, {mean(finish), finish.constant(1e-5, DType::F32)})});
    const Access rows =
        build.through(weight, weights == Weights::Transposed ? transposed_weight_map(s) : weight_map(s));
    MatMulRegion region = product(build, s, type, x, {rows}, weights == Weights::Streamed);
    region.stats = {std::move(first), std::move(second)};
    region.a = {};
    centred(region.a);
    Store store{build.through(out, result_map(s)), {}, {}};
    store.expr.apply(Op::Mul, {store.expr.acc(0), store.expr.stat(1)});
    region.stores.push_back(std::move(store));
    build.region(std::move(region));
    const char* names[] = {"streamed", "direct", "transposed"};
    // As above, a left value next to a rounding boundary may round the other way.
    return {std::string("MatMul_scaled_at_the_end_") + names[static_cast<int>(weights)] + "_" +
                std::string(name(type)) + "_" + text(s),
            build.finish(),
            2 * epsilon(type),
            2 * epsilon(type) + 4 * accumulation_error(type, s),
            {}};
}

/// The same with tasks of so many columns, which are neighbours in the weight.
Case in_columns(Case whole, std::int32_t columns) {
    whole.name += "_columns_" + std::to_string(columns);
    std::get<MatMulRegion>(whole.graph.regions[0].body).tile.columns = columns;
    return whole;
}

enum class Layout : std::uint8_t { Rows, Columns };

IndexMap operand_map(const Sizes& s, std::size_t row, Layout layout) {
    const std::int64_t rows = row == 1 ? s.m : s.n;
    const bool by_row = layout == Layout::Rows;
    IndexMap map{{{atom(s.b, rows * s.k)}, {atom(s.m, 0)}, {atom(s.n, 0)}, {atom(s.k, by_row ? 1 : rows)}},
                 0};
    map.dims[row] = {atom(rows, by_row ? s.k : 1)};
    return map;
}

/// A product of many rows: both layouts of both operands, one or two weights, and a store that loads.
Case in_tiles(DType type, const Sizes& s, Layout left_layout, Layout weight_layout, ProductTile tile,
              int weights = 1) {
    CaseBuilder build;
    const BufferId left = build.buffer(BufferRole::Input, type, {s.b * s.m * s.k});
    const BufferId bias = build.buffer(BufferRole::Parameter, type, {s.n});
    MatMulRegion region;
    region.space = {s.b, s.m, s.n, s.k};
    region.a.load(build.through(left, operand_map(s, 1, left_layout)));
    region.a_type = type;
    region.tile = tile;
    const BufferId out = build.buffer(BufferRole::Output, type, {s.b, s.m, s.n});
    Store store{build.through(out, result_map(s)), {}, {}};
    std::int32_t sum =
        store.expr.cast(store.expr.load(build.through(
                            bias, {{{atom(s.b, 0)}, {atom(s.m, 0)}, {atom(s.n, 1)}, {atom(s.k, 0)}}, 0})),
                        DType::F32);
    for (int j = 0; j < weights; ++j) {
        const BufferId weight = build.buffer(BufferRole::Parameter, type, {s.b * s.n * s.k});
        region.weights.push_back(build.through(weight, operand_map(s, 2, weight_layout)));
        sum = store.expr.apply(Op::Add, {sum, store.expr.acc(j)});
    }
    region.stores.push_back(std::move(store));
    build.region(std::move(region));
    const char* names[] = {"rows", "columns"};
    return {"MatMul_tiles_" + std::to_string(tile.rows) + "x" + std::to_string(tile.columns) + "_" +
                names[static_cast<int>(left_layout)] + "_" + names[static_cast<int>(weight_layout)] + "_" +
                std::to_string(weights) + "_" + std::string(name(type)) + "_" + text(s),
            build.finish(),
            2 * epsilon(type),
            accumulation_error(type, s),
            {}};
}

/// Sums in which the products of other blocks count.
Case small_products_beside_a_large_one(ProductTile tile) {
    static constexpr Sizes kSizes{1, 16, 16, 16384};
    Case test = in_tiles(DType::F32, kSizes, Layout::Rows, Layout::Rows, tile);
    test.name = "MatMul_small_products_beside_a_large_one_" + std::to_string(tile.rows);
    test.relative = 128 * epsilon(DType::F32) / 2;  // as many as a block has
    test.absolute = 0;
    test.prepare = [](BufferMemory& memory) {
        memory.set(BufferId(0), small_terms_beside_a_large_one(kSizes.m, kSizes.k));
        memory.set(BufferId(1), Elements(kSizes.n, 0));
        memory.set(BufferId(3), Elements(kSizes.n * kSizes.k, 1));
    };
    return test;
}

/// A product of which each row, or each batch, takes its own part of k: none, some, all, and bounds outside. So many
/// neighbours take the same.
Case ragged(const Sizes& s, Layout left_layout, Layout weight_layout, bool by_row, std::int64_t alike = 1) {
    Case whole = in_tiles(DType::BF16, s, left_layout, weight_layout, {64, 64, 3});
    auto& region = std::get<MatMulRegion>(whole.graph.regions.front().body);
    const std::int64_t count = by_row ? s.m : s.b;
    const auto bound = [&](const char* role) {
        const auto id = static_cast<std::int32_t>(whole.graph.buffers.size());
        whole.graph.buffers.push_back({role, DType::I64, {count}, BufferRole::Input, nullptr});
        const IndexMap map{
            {{atom(s.b, by_row ? 0 : 1)}, {atom(s.m, by_row ? 1 : 0)}, {atom(1, 0)}, {atom(s.k, 0)}}, 0};
        return Access{id, DType::I64, map, {}};
    };
    region.ragged = Ragged{bound("begins"), bound("ends"), s.k / 2};
    const BufferId begins(region.ragged->begin.source), ends(region.ragged->end.source);
    whole.prepare = [=](BufferMemory& memory) {
        std::vector<double> from, to;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t part = i / alike;
            from.push_back(static_cast<double>(part * 37 % s.k) - (part % 5 == 0 ? s.k : 0));
            to.push_back(from.back() + static_cast<double>(part * 53 % s.k));
        }
        memory.set(begins, from);
        memory.set(ends, to);
    };
    whole.name += by_row ? "_ragged_rows" : "_ragged_batches";
    if (alike > 1) whole.name += "_alike";
    return whole;
}

/// A product whose k is cut in parts of `depth` and a rest.
Case in_parts(Case whole, std::int64_t depth) {
    auto parts = split_product(whole.graph.regions.front(), depth, whole.graph.buffers);
    ensure(parts.has_value(), "k cannot be cut");
    whole.graph.regions = std::move(*parts);
    whole.name += "_in_parts_of_" + std::to_string(depth);
    return whole;
}

/// A product, as `plain` makes it, whose weights may change from one iteration to the next.
Case with_weights_as_state(Case whole) {
    whole.graph.buffers.at(1).role = BufferRole::State;
    whole.name += "_of_state";
    return whole;
}

/// Tails in m, n and k; operands that lie in 16-byte pieces, in smaller ones, and element by element.
/// Weights read from global memory 16 bytes at a time: one to nine rows; whole batches of loads, and such that end within; sums
/// shorter than a batch, and than the lanes; parts of k; statistics.
void add_wide(std::vector<Case>& cases) {
    for (const std::int64_t m : {1, 3, 8, 9}) {
        cases.push_back(in_columns(plain(Weights::Transposed, DType::F32, {2, m, 40, 130}), 8));
        cases.push_back(in_columns(plain(Weights::Transposed, DType::BF16, {1, m, 72, 520}), 32));
        cases.push_back(plain(Weights::Direct, DType::F32, {2, m, 37, 132}));
        cases.push_back(plain(Weights::Direct, DType::BF16, {1, m, 45, 520}));
    }
    cases.push_back(in_columns(plain(Weights::Transposed, DType::F32, {1, 1, 64, 2048}), 8));
    cases.push_back(in_columns(plain(Weights::Transposed, DType::F32, {3, 1, 132, 5}), 128));
    cases.push_back(in_columns(plain(Weights::Transposed, DType::F16, {1, 1, 264, 333}), 256));
    cases.push_back(in_columns(plain(Weights::Transposed, DType::BF16, {1, 1, 192, 1300}), 64));
    cases.push_back(in_columns(plain(Weights::Transposed, DType::BF16, {1, 1, 128, 2310}), 128));
    cases.push_back(in_parts(in_columns(plain(Weights::Transposed, DType::BF16, {1, 1, 72, 520}), 16), 64));
    const Case narrow = with_weights_as_state(plain(Weights::Transposed, DType::BF16, {1, 1, 128, 2310}));
    cases.push_back(in_columns(narrow, 64));
    cases.push_back(with_weights_as_state(plain(Weights::Direct, DType::F32, {1, 3, 21, 768})));
    for (const std::int64_t k : {4, 12, 64, 256, 768, 1028, 3072})
        cases.push_back(plain(Weights::Direct, DType::F32, {1, 1, 21, k}));
    for (const std::int64_t k : {8, 768, 4104}) {
        cases.push_back(plain(Weights::Direct, DType::F16, {1, 1, 11, k}));
        cases.push_back(scaled_at_the_end(Weights::Direct, DType::F32, {1, 2, 40, k}));
        cases.push_back(in_columns(scaled_at_the_end(Weights::Transposed, DType::F32, {1, 2, 40, k}), 16));
    }
}

void add_tiles(std::vector<Case>& cases) {
    for (const Layout left : {Layout::Rows, Layout::Columns}) {
        for (const Layout weight : {Layout::Rows, Layout::Columns}) {
            cases.push_back(in_tiles(DType::BF16, {2, 72, 136, 200}, left, weight, {64, 128, 3}));
            cases.push_back(in_tiles(DType::F16, {1, 132, 68, 68}, left, weight, {128, 64, 4}));
            cases.push_back(in_tiles(DType::BF16, {1, 66, 134, 66}, left, weight, {128, 128, 3}));
            cases.push_back(in_tiles(DType::BF16, {1, 65, 67, 33}, left, weight, {64, 64, 3}));
            cases.push_back(in_tiles(DType::BF16, {1, 80, 264, 72}, left, weight, {128, 256, 4}));
            cases.push_back(in_tiles(DType::F32, {2, 40, 72, 100}, left, weight, {32, 32, 6}));
            cases.push_back(in_tiles(DType::F32, {1, 65, 67, 33}, left, weight, {64, 64, 5}));
            // Small tiles: blocks of four, two and one lines a row; whole ones, and rows, columns and k that end within.
            cases.push_back(in_tiles(DType::F32, {1, 64, 40, 256}, left, weight, {16, 8, 6}));
            cases.push_back(in_tiles(DType::F32, {2, 19, 21, 130}, left, weight, {16, 8, 3}));
            cases.push_back(in_tiles(DType::F32, {1, 40, 50, 64}, left, weight, {16, 32, 6}));
            cases.push_back(in_tiles(DType::F32, {1, 36, 20, 385}, left, weight, {32, 16, 4}));
            cases.push_back(in_tiles(DType::F32, {1, 33, 17, 90}, left, weight, {16, 16, 6}));
            cases.push_back(in_tiles(DType::F32, {1, 48, 32, 256}, left, weight, {16, 16, 6}));
            cases.push_back(in_tiles(DType::F32, {1, 132, 134, 66}, left, weight, {128, 128, 5}));
        }
        cases.push_back(in_tiles(DType::BF16, {1, 128, 192, 128}, left, left, {128, 192, 3}));
    }
    cases.push_back(small_products_beside_a_large_one({16, 16, 6}));
    cases.push_back(small_products_beside_a_large_one({64, 64, 5}));
    cases.push_back(ragged({1, 320, 64, 320}, Layout::Rows, Layout::Columns, true, 64));
    cases.push_back(in_tiles(DType::F16, {1, 64, 200, 64}, Layout::Rows, Layout::Columns, {128, 192, 3}));
    cases.push_back(in_tiles(DType::BF16, {1, 80, 72, 200}, Layout::Rows, Layout::Rows, {128, 64, 4}, 2));
    cases.push_back(in_tiles(DType::F32, {1, 36, 72, 70}, Layout::Rows, Layout::Columns, {32, 64, 5}, 2));
    cases.push_back(in_tiles(DType::F32, {1, 20, 12, 256}, Layout::Columns, Layout::Rows, {16, 8, 6}, 2));
    for (const Layout weight : {Layout::Rows, Layout::Columns}) {
        cases.push_back(ragged({1, 140, 72, 200}, Layout::Rows, weight, true));
        cases.push_back(ragged({6, 66, 72, 200}, Layout::Rows, weight, false));
        cases.push_back(ragged({6, 66, 72, 200}, Layout::Columns, weight, false));
    }
    const ProductTile tile{64, 64, 3};
    cases.push_back(
        in_parts(in_tiles(DType::BF16, {1, 66, 68, 264}, Layout::Rows, Layout::Columns, tile), 64));
    cases.push_back(
        in_parts(in_tiles(DType::BF16, {2, 68, 72, 128}, Layout::Columns, Layout::Rows, tile), 64));
}

}  // namespace

std::vector<Case> matmul_cases() {
    std::vector<Case> cases;
    for (std::int64_t m = 1; m <= 9; ++m)
        cases.push_back(plain(Weights::Streamed, DType::BF16, {1, m, 33, 264}));
    for (std::int64_t k : {8, 64, 256, 1000, 1536}) {
        cases.push_back(plain(Weights::Streamed, DType::BF16, {1, 1, 70, k}));
    }
    for (std::int64_t n : {1, 2, 3, 5, 300})
        cases.push_back(plain(Weights::Streamed, DType::BF16, {1, 2, n, 72}));
    // Panels: one chunk of k, fewer chunks than warps, a ragged round of chunks, two and three pieces, more than
    // registers hold; one row, a whole panel and many of them; F16 as well.
    for (std::int64_t k : {32, 160, 320, 2048, 2112, 3104}) {
        cases.push_back(plain(Weights::Streamed, DType::BF16, {1, 1, 50, k}));
        cases.push_back(plain(Weights::Streamed, DType::BF16, {1, 8, 9, k}));
    }
    // Left sides that are staged in parts: four alike; two of two pieces and a short one; with statistics.
    cases.push_back(plain(Weights::Streamed, DType::BF16, {1, 8, 17, 8192}));
    cases.push_back(plain(Weights::Streamed, DType::F16, {1, 7, 9, 4864}));
    cases.push_back(normalized_and_gated(DType::BF16, {1, 8, 9, 4864}));
    cases.push_back(scaled_at_the_end(Weights::Streamed, DType::BF16, {1, 8, 9, 4864}));
    cases.push_back(normalized_and_gated(DType::BF16, {1, 8, 45, 576}));
    for (std::int64_t n : {1, 8, 2100}) cases.push_back(plain(Weights::Streamed, DType::BF16, {1, 3, n, 96}));
    cases.push_back(plain(Weights::Streamed, DType::F16, {1, 2, 37, 544}));
    cases.push_back(plain(Weights::Streamed, DType::F16, {1, 17, 37, 64}));
    for (DType type : {DType::F16, DType::F32, DType::F64}) {
        cases.push_back(plain(Weights::Streamed, type, {1, 1, 19, 520}));
        cases.push_back(plain(Weights::Streamed, type, {1, 3, 19, 520}));
    }
    for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
        cases.push_back(plain(Weights::Direct, type, {1, 2, 37, 129}));
        cases.push_back(plain(Weights::Transposed, type, {1, 3, 300, 50}));
        cases.push_back(plain(Weights::Direct, type, {3, 2, 5, 7}));
    }
    for (std::int64_t m : {1, 5, 9, 20})
        cases.push_back(plain(Weights::Transposed, DType::F32, {2, m, 33, 17}));
    for (DType type : {DType::BF16, DType::F32, DType::F64})
        cases.push_back(in_parts(plain(Weights::Transposed, type, {2, 3, 37, 264}), 64));
    for (DType type : {DType::BF16, DType::F16, DType::F32}) {
        for (std::int64_t m : {1, 4}) cases.push_back(normalized_and_gated(type, {1, m, 45, 576}));
        cases.push_back(normalized_and_gated(type, {1, 2, 45, 1568}));
        cases.push_back(normalized_and_gated(type, {1, 2, 45, 1000}));
        for (std::int64_t m : {1, 3}) {
            for (std::int64_t k : {576, 1000})
                cases.push_back(scaled_at_the_end(Weights::Streamed, type, {1, m, 45, k}));
            cases.push_back(scaled_at_the_end(Weights::Transposed, type, {1, m, 45, 50}));
        }
    }
    add_wide(cases);
    add_tiles(cases);
    return cases;
}

}  // namespace stretto
