#include <gtest/gtest.h>

#include <random>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"
#include "support/stable_order.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Orders that are found by blocks, by a name.
struct Keys {
    const char* name;
    DType type;
    std::int64_t count;
    bool descending;
    int values;  ///< few of them make equal keys
};

class LongOrders : public testing::TestWithParam<Keys> {};

TEST_P(LongOrders, AreThoseOfAStableSortWithTheirInverses) {
    const Keys& keys = GetParam();
    std::mt19937 engine(5);
    std::uniform_int_distribution<int> uniform(0, keys.values - 1);
    Elements elements(static_cast<std::size_t>(keys.count));
    for (double& x : elements) x = uniform(engine) - keys.values / 2;
    const Elements wanted = stable_order(elements, keys.descending);

    GraphBuilder b;
    const Tensor x = b.input(Role::User, "keys", keys.type, {keys.count});
    const Tensor order = b.argsort(x, 0, keys.descending);
    b.output(order, "order");
    b.output(b.argsort(order, 0, false), "inverse");
    b.output(b.gather(x, 0, order), "sorted");
    const Graph graph = simplify(b.finish());
    for (const Backend& backend : available_backends()) {
        const bool cuda = backend.name.starts_with("cuda");
        if (!cuda && backend.name != "reference_random_3" && backend.name != "cpu_7") continue;
        const Plan plan = planned(fuse(graph, backend.machine), backend.machine);
        const RegionGraph& regions = plan.graph.regions;
        ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
        BufferMemory memory(regions, 5);
        memory.set(buffer_named(regions, "keys"), elements);
        backend.run(plan, memory, 2);
        EXPECT_EQ(memory.elements(buffer_named(regions, "order")), wanted) << backend.name;
        const Elements inverse = memory.elements(buffer_named(regions, "inverse"));
        const Elements sorted = memory.elements(buffer_named(regions, "sorted"));
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const auto position = static_cast<std::size_t>(wanted[i]);
            ASSERT_EQ(inverse[position], static_cast<double>(i)) << backend.name;
            ASSERT_EQ(sorted[i], elements[position]) << backend.name;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Keys, LongOrders,
                         testing::Values(Keys{"Experts", DType::I64, 4096, false, 16},
                                         Keys{"Tokens", DType::I64, 2500, true, 32000},
                                         Keys{"Scores", DType::F32, 2100, true, 500}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace stretto
