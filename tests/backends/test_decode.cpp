#include <gtest/gtest.h>

#include <map>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "simplify/simplify.h"
#include "support/decode_graph.h"
#include "verify/verify.h"

namespace stretto {
namespace {

class Decode : public testing::TestWithParam<std::tuple<std::int64_t, Backend>> {};

TEST_P(Decode, StepsFollowThePlainEvaluator) {
    const auto& [batch, backend] = GetParam();
    DecodeSizes sizes;
    sizes.batch = batch;
    const Graph graph = decode_graph(sizes);
    const RegionGraph regions = fuse(simplify(graph), backend.machine);
    const Plan plan = planned(regions, backend.machine);
    const std::vector<Fault> faults = verify(plan);
    ASSERT_TRUE(faults.empty()) << faults[0].message;

    BufferMemory memory(regions, 3);
    std::map<std::string, Elements> inputs;
    std::map<std::string, BufferId> buffers;
    for (std::size_t b = 0; b < regions.buffers.size(); ++b) {
        const BufferId id(static_cast<std::int64_t>(b));
        buffers[regions.buffers[b].name] = id;
        if (regions[id].role == BufferRole::Output || regions[id].role == BufferRole::Arena) continue;
        // Activations keep their size from layer to layer only if products of `hidden` terms do.
        Elements elements = memory.elements(id);
        if (regions[id].role == BufferRole::Parameter) {
            for (double& x : elements) x /= 8;
        }
        memory.set(id, elements);
        inputs[regions.buffers[b].name] = memory.elements(id);
    }
    for (std::int64_t step = 0; step < 3; ++step) {
        const Elements position{static_cast<double>(5 + step)};
        Elements tokens(static_cast<std::size_t>(batch));
        for (std::int64_t i = 0; i < batch; ++i)
            tokens[static_cast<std::size_t>(i)] = static_cast<double>(7 * step + i);
        for (const auto& [name, elements] :
             {std::pair("position", position), std::pair("input_ids", tokens)}) {
            memory.set(buffers.at(name), elements);
            inputs[name] = elements;
        }
        const std::vector<Elements> values = evaluate(graph, inputs);
        backend.run(plan, memory, 1);
        for (const Output& output : graph.outputs) {
            const Elements& want = values[output.value.index()];
            const std::string name =
                output.state_input.valid() ? std::get<Input>(graph[output.state_input].op).name : output.name;
            if (output.state_input.valid()) inputs[name] = want;
            // BF16 keeps 8 bits; two layers of a dozen roundings each, of which errors add as a random walk.
            EXPECT_LT(relative_distance(memory.elements(buffers.at(name)), want), 8 * 0x1p-8)
                << name << " in step " << step;
        }
    }
}

std::vector<Backend> all_backends() {
    std::vector<Backend> all = available_backends();
    for (Backend& backend : packed_backends()) all.push_back(std::move(backend));
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, Decode,
                         testing::Combine(testing::Values(1, 4), testing::ValuesIn(all_backends())),
                         [](const auto& instance) {
                             return "batch_" + std::to_string(std::get<0>(instance.param)) + "_on_" +
                                    std::get<1>(instance.param).name;
                         });

}  // namespace
}  // namespace stretto
