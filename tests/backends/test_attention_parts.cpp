#include <gtest/gtest.h>

#include <map>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"
#include "support/oracle.h"
#include "verify/verify.h"

namespace stretto {
namespace {

constexpr std::int64_t kContext = 3200;  ///< 25 blocks
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kWidth = 64;

/// Attention over the rows up to "position", and a product of it.
Graph attention_and_product(DType type) {
    GraphBuilder b;
    const Tensor q = b.input(Role::User, "q", type, {1, kHeads, 1, kWidth});
    const Tensor k = b.input(Role::State, "k", type, {1, 1, kContext, kWidth});
    const Tensor v = b.input(Role::State, "v", type, {1, 1, kContext, kWidth});
    const Tensor position = b.input(Role::User, "position", DType::I64, {1});
    const Tensor rows = b.arange(kContext, 0, 1, DType::I64);
    const Tensor mask = b.reshape(b.apply(Op::Le, {rows, position}, DType::Bool), {1, 1, 1, kContext});
    const Tensor attended = b.reshape(b.attention(q, k, v, mask, false, 0.5), {1, kHeads * kWidth});
    b.output(attended, "attended");
    const Tensor w = b.input(Role::Parameter, "w", type, {32, kHeads * kWidth});
    b.output(b.linear(attended, w, std::nullopt), "product");
    return simplify(b.finish());
}

/// Into how many parts the context is cut, its last row, and the type.
class AttentionParts : public testing::TestWithParam<std::tuple<std::int32_t, std::int64_t, DType>> {};

TEST_P(AttentionParts, GiveTheAttentionOfTheWholeContext) {
    const auto& [parts, last, type] = GetParam();
    const Graph graph = attention_and_product(type);
    PlanOptions options;
    options.attention_splits = parts;
    for (const Backend& backend : available_backends()) {
        const bool cuda = backend.name.starts_with("cuda");
        if (!cuda && backend.name != "reference_random_3" && backend.name != "cpu_words_4") continue;
        const Plan plan = planned(fuse(graph, backend.machine, Numerics::Fused, options), backend.machine);
        const RegionGraph& regions = plan.graph.regions;
        ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
        BufferMemory memory(regions, 7);
        memory.set(buffer_named(regions, "position"), {static_cast<double>(last)});
        std::map<std::string, Elements> inputs;
        for (const char* name : {"q", "k", "v", "position", "w"})
            inputs[name] = memory.elements(buffer_named(regions, name));
        const std::vector<Elements> values = evaluate(graph, inputs);
        backend.run(plan, memory, 2);
        for (const Output& output : graph.outputs) {
            if (output.state_input.valid()) continue;
            // Results are rounded to the type. Where that is F32, what the sums lose counts: of n positive terms at most n
            // units in the last place, of which a device adds thousands one after the other.
            EXPECT_LT(relative_distance(memory.elements(buffer_named(regions, output.name)),
                                        values[output.value.index()]),
                      type == DType::F32 ? 0x1p-16 : 0x1p-8)
                << output.name << " on " << backend.name;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionParts,
                         testing::Combine(testing::Values(2, 24), testing::Values(0, 1700, 3199),
                                          testing::Values(DType::BF16, DType::F32)),
                         [](const auto& instance) {
                             return std::to_string(std::get<0>(instance.param)) + "_of_rows_up_to_" +
                                    std::to_string(std::get<1>(instance.param)) + "_" +
                                    std::string(name(std::get<2>(instance.param)));
                         });

}  // namespace
}  // namespace stretto
