#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "backends/random_expr.h"
#include "backends/reference/twin.h"
#include "fuse/text.h"
#include "support/memory.h"
#include "support/region_oracle.h"

namespace stretto {
namespace {

RC_GTEST_PROP(Interpreter, AgreesWithThePlainEvaluatorInEveryBit, ()) {
    const RandomMap program;
    const RegionGraph& graph = program.graph();
    BufferMemory memory(graph, static_cast<std::uint64_t>(generators::pick(0, 1 << 20)));
    std::vector<Elements> expected = memory.all_elements();
    evaluate(graph, expected);

    const auto& region = std::get<MapRegion>(graph.regions[0].body);
    const std::int64_t count = volume(region.space);
    const std::int64_t cut = generators::pick(0, count);
    Twins twins(graph, 8);
    Workspace workspace;
    Task task;
    task.region = RegionId(0);
    for (Range part : {Range{0, cut}, Range{cut, count}}) {
        task.tile[0] = part;
        twins.run(task, memory.addresses(), workspace);
    }

    RC_LOG(to_text(graph));
    const BufferId output(region.stores[0].target.source);
    const Elements got = memory.elements(output);
    const Elements& want = expected[output.index()];
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i])) {
            RC_ASSERT(std::isnan(got[i]));
        } else {
            RC_ASSERT(got[i] == want[i]);
        }
    }
}

}  // namespace
}  // namespace stretto
