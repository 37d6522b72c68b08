#include "pipeline/pipeline.h"

#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "memory/memory.h"
#include "pipeline/observer.h"
#include "schedule/schedule.h"
#include "simplify/simplify.h"
#include "simplify/strips.h"
#include "tile/tile.h"
#include "verify/verify.h"

namespace stretto {
namespace {

void require_safe(const std::vector<Fault>& faults) {
    if (faults.empty()) return;
    throw InternalError(
        "the plan is not safe to run; this is a bug in Stretto. Please report it with the output of "
        "STRETTO_DUMP=memory\n" +
        to_text(faults));
}

void read_weights_directly(RegionGraph& regions) {
    for (Region& region : regions.regions) {
        if (auto* matmul = std::get_if<MatMulRegion>(&region.body)) matmul->streamed = false;
    }
}

/// The options with the machine as the plan sees it.
CompileOptions with_workers(CompileOptions options) {
    const std::int32_t workers = options.plan.workers;
    if (workers > options.machine.workers) {
        throw UserError(fmt::format("plan option workers={}: machine '{}' has {}", workers,
                                    options.machine.name, options.machine.workers));
    }
    if (workers > 0) options.machine.workers = workers;
    return options;
}

Compiled finish(RegionGraph regions, const CompileOptions& options, Observer& observer) {
    const Machine& machine = options.machine;
    const PlanOptions& choices = options.plan;
    if (!choices.stream) read_weights_directly(regions);
    TaskGraph tasks = observer.stage("tile", [&] { return tile(std::move(regions), machine, choices); });
    Plan scheduled = observer.stage("schedule", [&] { return schedule(std::move(tasks), machine, choices); });
    Plan plan = observer.stage("memory", [&] { return place_buffers(std::move(scheduled)); });
    require_safe(observer.stage("verify", [&] { return verify(plan); }));
    Emission emission = observer.stage("emit", [&] { return emit(plan, machine); });

    return {std::move(plan), std::move(emission), options, observer.times()};
}

}  // namespace

Compiled compile(const Graph& graph, const CompileOptions& asked) {
    const CompileOptions options = with_workers(asked);
    Observer observer(observer_settings_of_environment(), std::cerr);
    check(graph);
    const Graph simple = observer.stage("simplify", [&] {
        return in_strips(simplify(graph), options.plan.product_strips, options.machine.workers);
    });
    RegionGraph regions =
        observer.stage("fuse", [&] { return fuse(simple, options.machine, options.numerics, options.plan); });
    return finish(std::move(regions), options, observer);
}

Compiled compile_regions(RegionGraph regions, const CompileOptions& asked) {
    const CompileOptions options = with_workers(asked);
    Observer observer(observer_settings_of_environment(), std::cerr);
    return finish(std::move(regions), options, observer);
}

}  // namespace stretto
