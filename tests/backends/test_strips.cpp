#include <gtest/gtest.h>

#include <map>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "simplify/simplify.h"
#include "simplify/strips.h"
#include "support/cross_entropy_graph.h"
#include "support/oracle.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// The type, and the strips.
class StripsOnBackends : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {};

TEST_P(StripsOnBackends, GiveTheLossAndTheGradientsOfStoredLogits) {
    const auto& [type, strips] = GetParam();
    const CrossEntropy of{.rows = 80, .hidden = 64, .columns = 700, .type = type, .biased = true};
    const Graph graph = simplify(cross_entropy_graph(of));
    const std::map<std::string, Elements> inputs = cross_entropy_inputs(of, 6);
    const std::vector<Elements> values = evaluate(graph, inputs);
    for (const Backend& backend : available_backends()) {
        const bool cuda = backend.name.starts_with("cuda");
        if (!cuda && backend.name != "reference_random_3" && backend.name != "cpu_words_4") continue;
        const Plan plan = planned(fuse(in_strips(graph, strips, backend.machine.workers), backend.machine),
                                  backend.machine);
        const RegionGraph& regions = plan.graph.regions;
        ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
        BufferMemory memory(regions, 7);
        for (const auto& [name, elements] : inputs) memory.set(buffer_named(regions, name), elements);
        backend.run(plan, memory, 2);
        for (const Output& output : graph.outputs) {
            // Sums of up to 700 terms, in F32; the strips' gradients, and results, are rounded to the type.
            EXPECT_LT(relative_distance(memory.elements(buffer_named(regions, output.name)),
                                        values[output.value.index()]),
                      type == DType::F32 ? 0x1p-16 : 0x1p-7)
                << output.name << " on " << backend.name;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, StripsOnBackends,
                         testing::Combine(testing::Values(DType::BF16, DType::F32), testing::Values(2, 5)),
                         [](const auto& instance) {
                             return std::string(name(std::get<0>(instance.param))) + "_in_" +
                                    std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace stretto
