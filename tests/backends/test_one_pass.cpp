#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/backends.h"
#include "fuse/fuse.h"
#include "simplify/simplify.h"
#include "support/head_graph.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Loss and gradient of a row in double.
struct Wanted {
    double loss = 0;
    Elements gradient;
};

Wanted wanted(const double* hidden, const Elements& weights, std::int64_t target) {
    const std::size_t depth = weights.size() / static_cast<std::size_t>(target + 40);
    Elements scores;
    for (std::size_t at = 0; at < weights.size(); at += depth) {
        double score = 0;
        for (std::size_t d = 0; d < depth; ++d) score += hidden[d] * weights[at + d];
        scores.push_back(score);
    }
    double total = 0;
    for (double score : scores) total += std::exp(score);
    const auto row = static_cast<std::size_t>(target) * depth;
    Wanted result{std::log(total) - scores[static_cast<std::size_t>(target)], {}};
    for (std::size_t d = 0; d < depth; ++d) {
        double sum = -weights[row + d];
        for (std::size_t v = 0; v < scores.size(); ++v)
            sum += std::exp(scores[v]) / total * weights[v * depth + d];
        result.gradient.push_back(sum);
    }
    return result;
}

TEST(OnePass, GivesLossAndGradientOnEveryBackend) {
    for (const Backend& backend : available_backends()) {
        for (const DType type : {DType::BF16, DType::F32}) {
            SCOPED_TRACE(backend.name + " " + std::string(name(type)));
            const HeadGraph head{2, 128 * std::max(4, backend.machine.workers) - 50, 160, type};
            const Graph graph = simplify(head_gradients(head));
            const Plan plan = planned(fuse(graph, backend.machine), backend.machine);
            ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].message;
            const RegionGraph& regions = plan.graph.regions;
            ASSERT_TRUE(std::any_of(regions.regions.begin(), regions.regions.end(), [](const Region& region) {
                const auto* attention = std::get_if<AttentionRegion>(&region.body);
                return attention != nullptr && reads_rows_once(*attention);
            }));
            BufferMemory memory(regions, 3);
            const auto target = static_cast<double>(head.columns - 40);
            memory.set(buffer_named(regions, "target"), {target, target});
            memory.set(buffer_named(regions, "scale"), {1, 0.5});
            const Elements hidden = memory.elements(buffer_named(regions, "h"));
            const Elements weights = memory.elements(buffer_named(regions, "w"));
            backend.run(plan, memory, 1);
            const Elements loss = memory.elements(buffer_named(regions, "loss"));
            const Elements gradient = memory.elements(buffer_named(regions, "gradient"));
            // A score is 160 products of up to 1, a sum as many as the columns, of which each adds a rounding; results are
            // rounded to their type.
            const double error = std::numeric_limits<float>::epsilon() * 8 * static_cast<double>(160 + 128);
            const double last = type == DType::BF16 ? 0x1p-8 : 0;
            for (std::size_t r = 0; r < 2; ++r) {
                const Wanted row =
                    wanted(hidden.data() + r * 160, weights, static_cast<std::int64_t>(target));
                EXPECT_NEAR(loss[r], row.loss, error * 10);
                for (std::size_t d = 0; d < 160; ++d) {
                    const double value = row.gradient[d] * (r == 0 ? 1 : 0.5);
                    EXPECT_NEAR(gradient[r * 160 + d], value, error + last * std::abs(value));
                }
            }
        }
    }
}

}  // namespace
}  // namespace stretto
