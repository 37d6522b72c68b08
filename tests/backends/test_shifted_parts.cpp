#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"
#include "verify/verify.h"

namespace stretto {
namespace {

constexpr std::int64_t kLogits = 29 * 1733;
constexpr std::int64_t kDepth = 8;

/// log(sum of exp(w x + mask)), as the loss of a language model has it.
Graph log_sum_of_exponentials() {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {1, kDepth});
    const Tensor w = b.input(Role::Parameter, "w", DType::F32, {kLogits, kDepth});
    const Tensor mask = b.input(Role::User, "mask", DType::F32, {1, kLogits});
    const Tensor logits = b.apply(Op::Add, {b.linear(x, w, {}), mask}, DType::F32);
    const Tensor most = b.reduce(ReduceOp::Max, logits, {1}, true, DType::F32);
    const Tensor exponentials = b.apply(Op::Exp, {b.apply(Op::Sub, {logits, most}, DType::F32)}, DType::F32);
    const Tensor sum = b.reduce(ReduceOp::Sum, exponentials, {1}, true, DType::F32);
    b.output(b.apply(Op::Add, {most, b.apply(Op::Log, {sum}, DType::F32)}, DType::F32), "result");
    return simplify(b.finish());
}

TEST(ShiftedParts, GiveTheSameLogarithmOfASum) {
    const Graph graph = log_sum_of_exponentials();
    // The first parts have nothing but minus infinity.
    Elements mask(kLogits, 0.0);
    std::fill_n(mask.begin(), 5000, -std::numeric_limits<double>::infinity());
    bool words = false;
    for (const Backend& backend : available_backends()) {
        SCOPED_TRACE(backend.name);
        const Plan plan = planned(fuse(graph, backend.machine), backend.machine);
        ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
        const RegionGraph& regions = plan.graph.regions;
        const auto two_passes =
            std::count_if(regions.regions.begin(), regions.regions.end(), [](const Region& region) {
                const auto* reduce = std::get_if<ReduceRegion>(&region.body);
                return reduce != nullptr && reduce->reductions.size() == 2;
            });
        ASSERT_EQ(two_passes, 2) << "a region for the parts, and one for the row";
        words |= std::any_of(regions.buffers.begin(), regions.buffers.end(), [](const Buffer& buffer) {
            return buffer.tagged && volume(buffer.shape) == kLogits;
        });
        BufferMemory memory(regions, 11);
        memory.set(buffer_named(regions, "mask"), mask);
        const Elements x = memory.elements(buffer_named(regions, "x"));
        const Elements w = memory.elements(buffer_named(regions, "w"));
        double sum = 0;
        for (std::size_t n = 5000; n < kLogits; ++n) {
            double logit = 0;
            for (std::size_t k = 0; k < kDepth; ++k) logit += x[k] * w[n * kDepth + k];
            sum += std::exp(logit);
        }
        backend.run(plan, memory, 1);
        // A logit of eight terms up to 1 is off by eight roundings of up to 8; a sum by some hundred of itself, its logarithm
        // by as many of 1.
        const double tolerance = std::numeric_limits<float>::epsilon() * (8 * 8 + 100);
        EXPECT_NEAR(memory.elements(buffer_named(regions, "result"))[0], std::log(sum), tolerance);
    }
    EXPECT_TRUE(words) << "some machine hands logits over as words";
}

}  // namespace
}  // namespace stretto
