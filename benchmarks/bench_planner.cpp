// How long each stage takes for the decode step of a 30-layer model: graph in, records out.
//   cmake --preset release -DSTRETTO_BENCHMARKS=ON && cmake --build --preset release --target bench_planner
//   build/release/benchmarks/bench_planner

#include <benchmark/benchmark.h>

#include "emit/emit.h"
#include "memory/memory.h"
#include "pipeline/pipeline.h"
#include "schedule/schedule.h"
#include "schedule/text.h"
#include "simplify/simplify.h"
#include "support/decode_graph.h"
#include "tile/tile.h"
#include "verify/verify.h"

namespace stretto {
namespace {

const Machine& machine() {
    static const Machine h200 = builtin_machine("h200");
    return h200;
}

const Graph& graph() {
    static const Graph decode = decode_graph(kDecode135M);
    return decode;
}

const Graph& simple() {
    static const Graph result = simplify(graph());
    return result;
}

const RegionGraph& regions() {
    static const RegionGraph result = fuse(simple(), machine());
    return result;
}

const TaskGraph& tasks() {
    static const TaskGraph result = tile(regions(), machine());
    return result;
}

const Plan& scheduled() {
    static const Plan result = schedule(tasks(), machine());
    return result;
}

const Plan& plan() {
    static const Plan result = place_buffers(scheduled());
    return result;
}

template <class Work>
void measure(benchmark::State& state, Work work) {
    for (auto _ : state) benchmark::DoNotOptimize(work());
    state.SetLabel(std::to_string(plan().graph.tasks.size()) + " tasks");
}

void bm_simplify(benchmark::State& state) {
    measure(state, [] { return simplify(graph()); });
}
void bm_fuse(benchmark::State& state) {
    measure(state, [] { return fuse(simple(), machine()); });
}
void bm_tile(benchmark::State& state) {
    measure(state, [] { return tile(regions(), machine()); });
}
void bm_schedule(benchmark::State& state) {
    measure(state, [] { return schedule(tasks(), machine()); });
}
void bm_memory(benchmark::State& state) {
    measure(state, [] { return place_buffers(scheduled()); });
}
void bm_verify(benchmark::State& state) {
    measure(state, [] { return verify(plan()); });
}
void bm_emit(benchmark::State& state) {
    measure(state, [] { return emit(plan(), machine()); });
}
void bm_all_stages(benchmark::State& state) {
    measure(state, [] { return compile(graph(), {machine(), Numerics::Fused}); });
}
void bm_write_text(benchmark::State& state) {
    measure(state, [] { return to_text(plan()); });
}
void bm_read_text(benchmark::State& state) {
    const std::string text = to_text(plan());
    measure(state, [&] { return parse_plan(text); });
}

BENCHMARK(bm_simplify)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_fuse)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_tile)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_schedule)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_memory)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_verify)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_emit)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_all_stages)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_write_text)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_read_text)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stretto
