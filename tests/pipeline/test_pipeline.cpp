#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "graph/builder.h"
#include "pipeline/pipeline.h"
#include "schedule/text.h"
#include "support/decode_graph.h"

namespace stretto {
namespace {

/// An environment variable for the length of a test.
class Environment {
public:
    Environment(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
    ~Environment() { unsetenv(name_); }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    const char* name_;
};

Graph two_products() {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {4, 16});
    const Tensor first = b.input(Role::Parameter, "first", DType::F32, {32, 16});
    const Tensor second = b.input(Role::Parameter, "second", DType::F32, {8, 32});
    const Tensor hidden = b.apply(Op::Tanh, {b.linear(x, first, std::nullopt)}, DType::F32);
    b.output(b.linear(hidden, second, std::nullopt), "y");
    return b.finish();
}

Compiled compiled(const Graph& graph) { return compile(graph, {builtin_machine("h200"), Numerics::Fused}); }

TEST(Pipeline, RunsItsStagesInOrder) {
    std::vector<std::string> stages;
    for (const StageTime& time : compiled(two_products()).times) stages.emplace_back(time.stage);
    EXPECT_EQ(stages,
              (std::vector<std::string>{"simplify", "fuse", "tile", "schedule", "memory", "verify", "emit"}));
}

TEST(Pipeline, WorkersMayBeIdleForManyBarriers) {
    GraphBuilder b;
    const Tensor x = b.input(Role::User, "x", DType::F32, {300'000});
    const Tensor wide = b.apply(Op::Exp, {x}, DType::F32);
    b.output(wide, "wide");
    Tensor sum = b.full({}, 1, DType::F32);
    for (int i = 0; i < 8; ++i) {
        const Tensor part = b.slice(wide, 0, i * 1000, i * 1000 + 900 + i);
        sum = b.reduce(ReduceOp::Sum, b.apply(Op::Mul, {part, sum}, DType::F32), {0}, false, DType::F32);
    }
    b.output(sum, "sum");
    Machine machine = builtin_machine("h200");
    machine.barrier_us = 0;
    const Compiled result = compile(b.finish(), {machine, Numerics::Fused});
    const auto barriers = std::count_if(result.plan.events.begin(), result.plan.events.end(),
                                        [](const Event& event) { return event.kind == HandOff::Barrier; });
    EXPECT_GT(barriers, static_cast<std::ptrdiff_t>(kMaxSignals));
}

TEST(Pipeline, TheSameGraphGivesTheSameBytes) {
    const Graph graph = decode_graph(DecodeSizes{});
    const Compiled once = compiled(graph);
    const Compiled again = compiled(graph);
    EXPECT_EQ(to_text(once.plan), to_text(again.plan));
    EXPECT_EQ(once.emission.source, again.emission.source);
    EXPECT_EQ(once.emission.records, again.emission.records);
    EXPECT_EQ(once.emission.loads, again.emission.loads);
}

TEST(Pipeline, WithoutWordsNothingIsHandedOverByThem) {
    const Graph graph = decode_graph(DecodeSizes{});
    const auto has_words = [](const Plan& plan) {
        return std::any_of(plan.edges.begin(), plan.edges.end(),
                           [](const Edge& edge) { return edge.kind == HandOff::Words; });
    };
    EXPECT_TRUE(has_words(compiled(graph).plan));
    const CompileOptions options{builtin_machine("h200"), Numerics::Fused, without({"words"})};
    EXPECT_FALSE(has_words(compile(graph, options).plan));
}

TEST(Pipeline, WithoutStreamsNothingIsLoadedAhead) {
    const CompileOptions options{builtin_machine("h200"), Numerics::Fused, without({"stream"})};
    for (const Worker& worker : compile(decode_graph(DecodeSizes{}), options).plan.workers)
        EXPECT_TRUE(worker.stream.empty());
}

TEST(Pipeline, WhatCannotBeLeftOutIsNamed) {
    try {
        static_cast<void>(without({"words", "luck"}));
        FAIL();
    } catch (const UserError& error) {
        EXPECT_STREQ(error.what(), "nothing called 'luck' can be left out; known: stream, words");
    }
}

Plan planned(const Graph& graph, std::string_view options) {
    return compile(graph, {builtin_machine("h200"), Numerics::Fused, parse_plan_options(options)}).plan;
}

TEST(Pipeline, UsesAsManyWorkersAsItIsTold) {
    const Graph graph = decode_graph(DecodeSizes{});
    EXPECT_EQ(planned(graph, "").workers.size(), 132U);
    EXPECT_EQ(planned(graph, "workers=40").workers.size(), 40U);
    const CompileOptions options{builtin_machine("h200"), Numerics::Fused, parse_plan_options("workers=40")};
    EXPECT_EQ(compile(graph, options).options.machine.workers, 40);
}

TEST(Pipeline, CannotUseMoreWorkersThanTheMachineHas) {
    try {
        static_cast<void>(planned(two_products(), "workers=133"));
        FAIL();
    } catch (const UserError& error) {
        EXPECT_STREQ(error.what(), "plan option workers=133: machine 'h200' has 132");
    }
}

TEST(Pipeline, GivesAProductsTasksAsManyPanelsAsItIsTold) {
    const auto fewest_panels = [](const Plan& plan) {
        std::int64_t fewest = 1000;
        for (const Task& task : plan.graph.tasks) {
            const auto* product = std::get_if<MatMulRegion>(&plan.graph.regions[task.region].body);
            if (product != nullptr && product->streamed) fewest = std::min(fewest, task.tile[2].size() / 8);
        }
        return fewest;
    };
    const Graph graph = decode_graph(DecodeSizes{});
    EXPECT_LT(fewest_panels(planned(graph, "")), 3);
    EXPECT_GE(fewest_panels(planned(graph, "task_panels=3")), 3);
}

TEST(Pipeline, GivesEveryProductATaskOnFewWorkers) {
    for (Machine machine : {builtin_machine("cpu"), builtin_machine("h200")}) {
        machine.workers = std::max(machine.workers, 2);  // this computer may have one
        CompileOptions options{machine, Numerics::Fused, {}};
        options.plan.workers = 2;
        for (Range tasks : compile(decode_graph(DecodeSizes{}), options).plan.graph.tasks_of)
            EXPECT_GT(tasks.size(), 0);
    }
}

TEST(Pipeline, HandsMoreOrLessOverByWordsAsItIsTold) {
    const auto tagged = [](const Plan& plan) {
        const auto& buffers = plan.graph.regions.buffers;
        return std::count_if(buffers.begin(), buffers.end(), [](const Buffer& each) { return each.tagged; });
    };
    const Graph graph = decode_graph(DecodeSizes{});
    EXPECT_EQ(tagged(planned(graph, "words_up_to=0")), 0);
    EXPECT_GT(tagged(planned(graph, "words_up_to=1")), 0);
}

TEST(Pipeline, StoresMoreValuesWhereComputingThemAgainIsWorthLess) {
    const Graph graph = decode_graph(DecodeSizes{});
    EXPECT_GT(planned(graph, "recompute_up_to=0").graph.regions.regions.size(),
              planned(graph, "recompute_up_to=1").graph.regions.regions.size());
}

TEST(Pipeline, ThePlanOfADecodeStepReadsBackFromItsText) {
    const Plan plan = compiled(decode_graph(DecodeSizes{})).plan;
    EXPECT_FALSE(plan.graph.tasks.empty());
    EXPECT_EQ(parse_plan(to_text(plan)), plan);
}

TEST(Pipeline, EveryStageDumpsATextOfItsOwn) {
    const auto folder = std::filesystem::path(testing::TempDir()) / "stretto_pipeline_dump";
    std::filesystem::remove_all(folder);
    const Environment dump("STRETTO_DUMP", "simplify,fuse,tile,schedule,memory,verify,emit");
    const Environment directory("STRETTO_DUMP_DIR", folder.string());
    (void)compiled(two_products());
    for (const std::string stage : {"simplify", "fuse", "tile", "schedule", "memory", "emit"}) {
        EXPECT_GT(std::filesystem::file_size(folder / (stage + ".txt")), 100U) << stage;
    }
    EXPECT_EQ(std::filesystem::file_size(folder / "verify.txt"), 0U);
}

TEST(Pipeline, TheSourceDoesNotGrowWithTheLayers) {
    // Both are so deep that what depends on the position alone is computed once for all layers.
    DecodeSizes sizes;
    sizes.layers = 10;
    DecodeSizes deeper;
    deeper.layers = 17;
    EXPECT_EQ(compiled(decode_graph(sizes)).emission.source.size(),
              compiled(decode_graph(deeper)).emission.source.size());
}

TEST(Pipeline, AMalformedGraphIsRefusedBeforeTheFirstStage) {
    Graph graph = two_products();
    graph.outputs.front().value = ValueId(1000);
    EXPECT_THROW((void)compiled(graph), InternalError);
}

}  // namespace
}  // namespace stretto
