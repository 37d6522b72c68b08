#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {
namespace {

RegionGraph fused(GraphBuilder& builder) {
    return fuse(simplify(builder.finish()), builtin_machine("h200"), Numerics::Fused);
}

/// Where the region stands that writes the buffer, and where the last one that reads it.
struct Places {
    std::ptrdiff_t write = -1;
    std::ptrdiff_t last_read = -1;
};

Places places_of(const RegionGraph& graph, const std::string& buffer) {
    Places places;
    for (std::size_t r = 0; r < graph.regions.size(); ++r) {
        for (const Use& use : uses(graph.regions[r])) {
            if (graph[BufferId(use.access->source)].name != buffer) continue;
            (use.write ? places.write : places.last_read) = static_cast<std::ptrdiff_t>(r);
        }
    }
    return places;
}

/// Each of `count` states gets its own value times the next one's.
RegionGraph ring_of_states(int count) {
    GraphBuilder b;
    std::vector<Tensor> states;
    for (int i = 0; i < count; ++i)
        states.push_back(b.input(Role::State, fmt::format("s{}", i), DType::F32, {512}));
    for (std::size_t i = 0; i < states.size(); ++i) {
        const Tensor& next = states[(i + 1) % states.size()];
        b.update_state(states[i], b.apply(Op::Mul, {states[i], next}, DType::F32), fmt::format("s{}", i));
    }
    return fused(b);
}

std::ptrdiff_t intermediates(const RegionGraph& graph) {
    return std::count_if(graph.buffers.begin(), graph.buffers.end(),
                         [](const Buffer& buffer) { return buffer.role == BufferRole::Arena; });
}

class Ring : public testing::TestWithParam<int> {};

TEST_P(Ring, EveryStateIsOverwrittenAfterItsReaders) {
    const RegionGraph graph = ring_of_states(GetParam());
    for (int i = 0; i < GetParam(); ++i) {
        const Places places = places_of(graph, fmt::format("s{}", i));
        EXPECT_GE(places.write, places.last_read) << "s" << i;
    }
}

TEST_P(Ring, OneStateWaitsAside) { EXPECT_EQ(intermediates(ring_of_states(GetParam())), 1); }

INSTANTIATE_TEST_SUITE_P(States, Ring, testing::Values(2, 3, 50));

TEST(FuseOrder, SeparateRingsEachWaitAside) {
    GraphBuilder b;
    for (int pair = 0; pair < 20; ++pair) {
        const std::string names[] = {fmt::format("a{}", pair), fmt::format("b{}", pair)};
        const Tensor first = b.input(Role::State, names[0], DType::F32, {512});
        const Tensor second = b.input(Role::State, names[1], DType::F32, {512});
        const Tensor product = b.apply(Op::Mul, {first, second}, DType::F32);
        b.update_state(first, b.apply(Op::Add, {product, first}, DType::F32), names[0]);
        b.update_state(second, b.apply(Op::Sub, {product, second}, DType::F32), names[1]);
    }
    EXPECT_EQ(intermediates(fused(b)), 20);
}

TEST(FuseOrder, ARegionMayReadAStateAsItWasAndAsItIs) {
    GraphBuilder b;
    const Tensor state = b.input(Role::State, "s", DType::F32, {64, 512});
    const Tensor next = b.slice_scatter(state, b.apply(Op::Tanh, {state}, DType::F32), 0, 0, 64);
    b.output(b.apply(Op::Mul, {state, next}, DType::F32), "both");
    b.update_state(state, next, "s");
    const RegionGraph graph = fused(b);
    const Places places = places_of(graph, "s");
    EXPECT_GE(places.write, places.last_read);
}

/// What `count` sums read of one value, each after one of its rows has been replaced.
std::set<std::string> buffers_of_branches(Role role, int count) {
    GraphBuilder b;
    const Tensor base =
        b.apply(Op::Mul, {b.input(role, "x", DType::F32, {64, 512}), b.full({1}, 3, DType::F32)}, DType::F32);
    for (int i = 0; i < count; ++i) {
        const Tensor row = b.input(Role::User, fmt::format("row{}", i), DType::F32, {1, 512});
        const Tensor changed = b.slice_scatter(base, row, 0, i, i + 1);
        b.output(b.reduce(ReduceOp::Sum, changed, {0}, false, DType::F32), fmt::format("sum{}", i));
    }
    const RegionGraph graph = fused(b);
    std::set<std::string> read;
    for (const Region& region : graph.regions) {
        if (!std::holds_alternative<ReduceRegion>(region.body)) continue;
        for (const Use& use : uses(region)) {
            if (!use.write) read.insert(fmt::format("{}", use.access->source));
        }
    }
    return read;
}

TEST(FuseOrder, UpdatesOfOneValueDoNotShareItsBuffer) {
    EXPECT_EQ(buffers_of_branches(Role::User, 2).size(), 2U);
    EXPECT_EQ(buffers_of_branches(Role::User, 5).size(), 5U);
}

TEST(FuseOrder, AnUpdateThatIsNotTheStatesNextValueLeavesTheStateAlone) {
    GraphBuilder b;
    const Tensor state = b.input(Role::State, "s", DType::F32, {64, 512});
    const Tensor row = b.input(Role::User, "row", DType::F32, {1, 512});
    const Tensor changed = b.slice_scatter(state, row, 0, 3, 4);
    b.output(b.reduce(ReduceOp::Sum, changed, {0}, false, DType::F32), "sum");
    b.update_state(state, b.slice_scatter(state, row, 0, 5, 6), "s");
    const RegionGraph graph = fused(b);
    int writes = 0;
    for (const Region& region : graph.regions) {
        for (const Use& use : uses(region))
            writes += use.write && graph[BufferId(use.access->source)].name == "s";
    }
    EXPECT_EQ(writes, 1);
}

}  // namespace
}  // namespace stretto
