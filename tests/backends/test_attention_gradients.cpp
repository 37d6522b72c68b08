#include <gtest/gtest.h>

#include <map>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "simplify/simplify.h"
#include "support/attention_graph.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Attention whose scores are computed anew, by a name.
struct Sized {
    const char* name;
    AttentionSizes sizes;
};

std::map<std::string, Elements> outputs_of(const Graph& graph,
                                           const std::map<std::string, Elements>& inputs) {
    const std::vector<Elements> values = evaluate(graph, inputs);
    std::map<std::string, Elements> found;
    for (const Output& output : graph.outputs) found[output.name] = values[output.value.index()];
    return found;
}

class AttentionGradients : public testing::TestWithParam<Sized> {};

/// The promise for gradients, with the program itself, rounded wherever it rounds, in the place of eager.
TEST_P(AttentionGradients, AreAsCloseToDoublePrecisionAsTheProgramItself) {
    AttentionSizes sizes = GetParam().sizes;
    const Graph graph = attention_gradients(sizes);
    sizes.type = DType::F64;
    const Graph wide = attention_gradients(sizes);
    for (const Backend& backend : available_backends()) {
        if (backend.name != "reference_random_3" && !backend.name.starts_with("cuda")) continue;
        Machine one = backend.machine;
        one.workers = 1;  // more than there are tasks would have the scores stored
        const RegionGraph regions = fuse(simplify(graph), one);
        const std::int64_t scores = sizes.heads * sizes.rows * sizes.rows;
        for (const Buffer& buffer : regions.buffers)
            EXPECT_TRUE(buffer.role != BufferRole::Arena || volume(buffer.shape) < scores) << buffer.name;
        const Plan plan = planned(regions, backend.machine);
        ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
        BufferMemory memory(regions, 5);
        const std::map<std::string, Elements> inputs = memory.elements_by_name();
        backend.run(plan, memory, 1);
        const auto exact = outputs_of(wide, inputs);
        const auto rounded = outputs_of(graph, inputs);
        for (const auto& [name, elements] : exact) {
            const double own = relative_distance(rounded.at(name), elements);
            EXPECT_LE(relative_distance(memory.elements(buffer_named(regions, name)), elements), 1.2 * own)
                << name;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionGradients,
    testing::Values(Sized{"Causal", {.rows = 81}}, Sized{"All", {.rows = 70, .causal = false}},
                    Sized{"Grouped", {.heads = 4, .rows = 66}},
                    Sized{"Depth48", {.heads = 1, .key_heads = 1, .rows = 129, .depth = 48}},
                    Sized{"Depth64", {.heads = 1, .key_heads = 1, .rows = 131, .depth = 64}},
                    Sized{"Half", {.rows = 67, .type = DType::F16}},
                    Sized{"Dropout", {.rows = 67, .dropout = true}},
                    Sized{"Bias", {.rows = 67, .bias = true}}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace stretto
