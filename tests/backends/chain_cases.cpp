#include <random>

#include "backends/cases.h"
#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

/// `length` regions, each of which reads all that the one before wrote, through an arena buffer each.
Case chain(std::int64_t length, std::int64_t width) {
    CaseBuilder build;
    BufferId previous = build.buffer(BufferRole::Input, DType::F32, {1, width});
    for (std::int64_t i = 0; i < length; ++i) {
        const bool last = i + 1 == length;
        const BufferId next =
            build.buffer(last ? BufferRole::Output : BufferRole::Arena, DType::F32, {1, width});
        const BufferId weight = build.buffer(BufferRole::Parameter, DType::BF16, {width, width});
        MatMulRegion region;
        region.space = {1, 1, width, width};
        region.a.load(
            build.through(previous, {{{atom(1, 0)}, {atom(1, 0)}, {atom(width, 0)}, {atom(width, 1)}}, 0}));
        region.a_type = DType::BF16;
        region.streamed = true;
        region.weights = {
            build.through(weight, {{{atom(1, 0)}, {atom(1, 0)}, {atom(width, width)}, {atom(width, 1)}}, 0})};
        Store store{
            build.through(next, {{{atom(1, 0)}, {atom(1, 0)}, {atom(width, 1)}, {atom(width, 0)}}, 0}),
            {},
            {}};
        store.expr.apply(Op::Tanh, {store.expr.acc(0)});
        region.stores.push_back(std::move(store));
        build.region(std::move(region));
        previous = next;
    }
    // Each step rounds its left side to BF16; values next to a boundary may round the other way and spread.
    return {"Chain_of_" + std::to_string(length) + "_products_" + std::to_string(width),
            build.finish(),
            0,
            static_cast<double>(length) * 2 * epsilon(DType::BF16),
            {}};
}

/// Reads a state, then writes it: the write must wait for all readers.
Case write_after_read() {
    CaseBuilder build;
    const std::int64_t width = 96;
    const BufferId state = build.buffer(BufferRole::State, DType::F32, {width});
    const BufferId out = build.buffer(BufferRole::Output, DType::F32, {width});
    const BufferId x = build.buffer(BufferRole::Input, DType::F32, {width});
    Store reversed{build.whole(out), {}, {}};
    reversed.expr.load(build.through(state, {{{atom(width, -1)}}, width - 1}));
    build.region(MapRegion{{width}, {std::move(reversed)}});
    Store update{build.whole(state), {}, {}};
    update.expr.load(build.whole(x));
    build.region(MapRegion{{width}, {std::move(update)}});
    return {"Chain_write_after_read", build.finish(), 0, 0, {}};
}

/// A value used at once by its neighbour in the queue and much later by another region.
Case long_lived() {
    CaseBuilder build;
    const Shape shape{4, 64};
    const BufferId x = build.buffer(BufferRole::Input, DType::F32, shape);
    const BufferId first = build.buffer(BufferRole::Arena, DType::F32, shape);
    BufferId previous = first;
    const auto map = [&](BufferId from, BufferId to, auto&& more) {
        Store store{build.whole(to), {}, {}};
        const std::int32_t value = store.expr.load(build.whole(from));
        more(store.expr, store.expr.apply(Op::Mul, {value, store.expr.constant(1.5, DType::F32)}));
        build.region(MapRegion{shape, {std::move(store)}});
    };
    const auto nothing = [](Expr&, std::int32_t) {};
    map(x, first, nothing);
    for (int i = 0; i < 4; ++i) {
        const BufferId next = build.buffer(BufferRole::Arena, DType::F32, shape);
        map(previous, next, nothing);
        previous = next;
    }
    const BufferId out = build.buffer(BufferRole::Output, DType::F32, shape);
    map(previous, out, [&](Expr& e, std::int32_t value) {
        // Rows in reverse order, so that readers and writers are different tasks.
        const IndexMap reversed{{{atom(4, -64)}, {atom(64, 1)}}, 3 * 64};
        e.apply(Op::Add, {value, e.load(build.through(first, reversed))});
    });
    return {"Chain_long_lived_value", build.finish(), 8 * epsilon(DType::F32), 8 * epsilon(DType::F32), {}};
}

/// The end of a classifier and its backward pass: logits and their derivative lie in the arena with odd rows, which products
/// write and read along both sides, reductions and a map along, and a lookup by index.
Case odd_rows() {
    constexpr std::int64_t kRows = 160, kClasses = 259, kDepth = 16;
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::BF16, {kRows, kDepth});
    const Tensor w = b.input(Role::Parameter, "w", DType::BF16, {kClasses, kDepth});
    const Tensor wanted = b.input(Role::User, "wanted", DType::I64, {kRows, 1});
    const Tensor logits = b.linear(x, w, std::nullopt);
    const Tensor largest = b.reduce(ReduceOp::Max, logits, {1}, false, DType::F32);
    const Tensor above = b.apply(Op::Sub, {logits, b.unsqueeze(largest, 1)}, DType::F32);
    const Tensor size = b.apply(Op::Exp, {above}, DType::F32);
    const Tensor sum = b.reduce(ReduceOp::Sum, size, {1}, false, DType::F32);
    const Tensor share = b.apply(Op::Div, {size, b.unsqueeze(sum, 1)}, DType::F32);
    const Tensor hit = b.apply(Op::Eq, {b.arange(kClasses, 0, 1, DType::I64), wanted}, DType::Bool);
    const Tensor rate = b.cast(b.apply(Op::Sub, {share, b.cast(hit, DType::F32)}, DType::F32), DType::BF16);
    b.output(b.gather(logits, 1, wanted), "found");
    // Outputs never travel as words, whose readers would take them one by one.
    b.output(largest, "largest");
    b.output(sum, "sum");
    b.output(b.cast(b.matmul(rate, w), DType::F32), "rate_x");
    b.output(b.cast(b.matmul(b.transpose(rate, 0, 1), x), DType::F32), "rate_w");
    const RegionGraph graph = fuse(simplify(b.finish()), builtin_machine("h200"), Numerics::Exact);
    // Multiples of 1/2, whose sums of products BF16 has: all backends take the same logits.
    const auto prepare = [graph](BufferMemory& memory) {
        std::mt19937 random(5);
        const auto fill = [&](const char* name, std::int64_t count, int least, int most, double unit) {
            std::uniform_int_distribution<int> below(least, most);
            Elements elements(static_cast<std::size_t>(count));
            for (double& element : elements) element = below(random) * unit;
            memory.set(buffer_named(graph, name), elements);
        };
        fill("x", kRows * kDepth, -2, 2, 0.5);
        fill("w", kClasses * kDepth, -2, 2, 0.5);
        fill("wanted", kRows, 0, kClasses - 1, 1);
    };
    // Sums of rates that are rounded to BF16, next to a boundary to the other side, and are rounded themselves.
    return {"Chain_odd_rows", graph, epsilon(DType::F32) * kClasses, 2 * epsilon(DType::BF16), prepare};
}

}  // namespace

std::vector<Case> chain_cases() {
    return {chain(2, 64), chain(7, 64), chain(4, 256), write_after_read(), long_lived(), odd_rows()};
}

}  // namespace stretto
