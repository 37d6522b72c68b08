#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "backends/cases.h"
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

TEST(Interpreter, TheSizeOfANegativeZeroIsPositive) {
    for (const DType type : {DType::F32, DType::F64}) {
        CaseBuilder build;
        const BufferId x = build.buffer(BufferRole::Input, type, {2});
        const BufferId y = build.buffer(BufferRole::Output, type, {2});
        Store store{build.whole(y), {}, {}};
        store.expr.apply(Op::Recip, {store.expr.apply(Op::Abs, {store.expr.load(build.whole(x))})});
        build.region(MapRegion{{2}, {std::move(store)}});
        const RegionGraph graph = build.finish();
        BufferMemory memory(graph, 1);
        memory.set(x, {-0.0, 0.0});
        Task task;
        task.region = RegionId(0);
        task.tile[0] = {0, 2};
        Workspace workspace;
        Twins(graph, 8).run(task, memory.addresses(), workspace);
        EXPECT_EQ(memory.elements(y), (Elements{INFINITY, INFINITY})) << name(type);
    }
}

}  // namespace
}  // namespace stretto
