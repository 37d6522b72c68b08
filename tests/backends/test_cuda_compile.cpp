#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "backends/backends.h"
#include "backends/cases.h"
#include "backends/cuda/compile.h"
#include "backends/cuda/kernel_cache.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"
#include "pipeline/pipeline.h"
#include "support/attention_graph.h"
#include "support/decode_graph.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

Machine machine() { return builtin_machine("h200"); }

class CudaCompile : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        if (!cuda::Nvrtc::available()) GTEST_SKIP() << "no NVRTC library: set STRETTO_NVRTC";
    }
};

TEST_P(CudaCompile, BuildsEveryKindWithoutSpills) {
    const Emission emission = emit(sample::every_kind(machine(), 1), machine());
    const CompiledKernel kernel = compile_kernel(emission, GetParam(), {.use_cache = false});
    EXPECT_GT(kernel.cubin.size(), 1000U);
    EXPECT_GT(kernel.registers, 16) << kernel.log;
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

TEST_P(CudaCompile, BuildsEveryKindOnWordsWithoutSpills) {
    const Emission emission = emit(sample::every_kind(machine(), 1, true), machine());
    const CompiledKernel kernel = compile_kernel(emission, GetParam(), {.use_cache = false});
    EXPECT_GT(kernel.cubin.size(), 1000U);
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

TEST_P(CudaCompile, BuildsATracedKernel) {
    const Emission emission = emit(sample::every_kind(machine(), 1), machine());
    const CompiledKernel plain = compile_kernel(emission, GetParam(), {.use_cache = false});
    const CompiledKernel traced = compile_kernel(emission, GetParam(), {.use_cache = false, .traced = true});
    EXPECT_EQ(traced.spill_bytes, 0);
    EXPECT_GT(traced.cubin.size(), plain.cubin.size());
}

TEST_P(CudaCompile, BuildsEightTokensWithoutSpills) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::F16, {8, 2048}, BufferRole::Input);
    const BufferId gate = plan.buffer("gate", DType::F16, {4, 2048}, BufferRole::Parameter);
    const BufferId up = plan.buffer("up", DType::F16, {4, 2048}, BufferRole::Parameter);
    const BufferId y = plan.buffer("y", DType::F16, {8, 4}, BufferRole::Output);
    MatMulRegion region = sample::gated(plan, x, gate, up, y, {1, 8, 4, 2048});
    region.a_type = DType::F16;
    plan.add("gated", region, {Range{0, 1}, {0, 8}, {0, 4}, {}});
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

/// Panels in more pieces than registers hold, and whole rows.
TEST_P(CudaCompile, BuildsLongRowsAndOddRowsWithoutSpills) {
    sample::PlanBuilder plan;
    for (const std::int64_t k : {8960, 1000}) {
        const std::string depth = std::to_string(k);
        const BufferId x = plan.buffer("x" + depth, DType::BF16, {8, k}, BufferRole::Input);
        const BufferId gate = plan.buffer("gate" + depth, DType::BF16, {4, k}, BufferRole::Parameter);
        const BufferId up = plan.buffer("up" + depth, DType::BF16, {4, k}, BufferRole::Parameter);
        const BufferId y = plan.buffer("y" + depth, DType::BF16, {8, 4}, BufferRole::Output);
        plan.add("gated" + depth, sample::gated(plan, x, gate, up, y, {1, 8, 4, k}),
                 {Range{0, 1}, {0, 8}, {0, 4}, {}});
    }
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

TEST_P(CudaCompile, BuildsAttentionOfManyWidthsWithoutSpills) {
    for (const std::int64_t depth : {16, 32, 48, 64, 80, 96, 112, 128}) {
        sample::PlanBuilder plan;
        const BufferId query = plan.buffer("query", DType::F32, {1, 16, 1, depth}, BufferRole::Input);
        const BufferId row = plan.buffer("row", DType::F32, {1, 2, depth}, BufferRole::Input);
        const BufferId key = plan.buffer("key", DType::BF16, {1, 2, 4096, depth}, BufferRole::State);
        const BufferId value = plan.buffer("value", DType::BF16, {1, 2, 4096, depth}, BufferRole::State);
        const BufferId length = plan.buffer("length", DType::I64, {1}, BufferRole::Input);
        const BufferId out = plan.buffer("out", DType::F32, {4, 1, 16, 1, depth + 2}, BufferRole::Output);
        const Shape space{1, 16, 1, 4096, depth};
        AttentionRegion region =
            sample::attention(plan, query, key, value, length, out, {1, 16, 1, 4096, depth}, 8, 4);
        region.fresh.row.load(plan.access(length, space, {0, 0, 0, 0, 0}));
        Access fresh = plan.access(row, space, {0, 0, 0, 0, 1});
        fresh.map.dims[1] = {atom(2, depth), atom(8, 0)};
        region.fresh.key.load(fresh);
        region.fresh.value.load(fresh);
        plan.add("attention", region, {Range{0, 1}, {0, 1}, {0, 1}, {0, 1}});
        const CompiledKernel kernel =
            compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
        EXPECT_EQ(kernel.spill_bytes, 0) << "D = " << depth;
        EXPECT_EQ(kernel.stack_bytes, 0) << "D = " << depth;
    }
}

TEST_P(CudaCompile, BuildsTheKernelThatPacksPanels) {
    Emission emission;
    emission.source = "#include <stretto/stream/pack.h>\n";
    const CompiledKernel kernel = compile_kernel(emission, GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.stack_bytes, 0);
    EXPECT_LE(kernel.registers, 64);
    EXPECT_GT(kernel.cubin.size(), 0U);
}

TEST_P(CudaCompile, BuildsAttentionOfTiedRowsWithoutSpills) {
    sample::PlanBuilder plan;
    const BufferId length = plan.buffer("length", DType::I64, {1}, BufferRole::Input);
    const auto add = [&](const std::string& name, DType type, std::int64_t rows, std::int64_t depth) {
        const BufferId query =
            plan.buffer("query" + name, DType::F32, {1, 1, rows, depth}, BufferRole::Input);
        const BufferId key = plan.buffer("key" + name, type, {1, 1, 50257, depth}, BufferRole::Parameter);
        const BufferId out =
            plan.buffer("out" + name, DType::F32, {8, 1, 1, rows, depth + 2}, BufferRole::Output);
        AttentionRegion region =
            sample::attention(plan, query, key, key, length, out, {1, 1, rows, 50257, depth}, 1, 8);
        region.length = {};
        region.mask = {};
        ASSERT_TRUE(reads_rows_once(region));
        plan.add("attention" + name, region, {Range{0, 1}, {0, 1}, {0, rows}, {0, 1}});
    };
    add("a", DType::BF16, 1, 768);
    add("b", DType::BF16, 1, 1024);
    add("c", DType::F32, 2, 768);
    Plan finished = plan.finish(machine());
    for (const std::int64_t slots : {0, 4}) {  // without and with a loader
        finished.shared.slots = slots;
        finished.shared.slot_bytes = slots * 3200;
        const CompiledKernel kernel =
            compile_kernel(emit(finished, machine()), GetParam(), {.use_cache = false});
        EXPECT_EQ(kernel.spill_bytes, 0) << slots << " slots";
        EXPECT_EQ(kernel.stack_bytes, 0) << slots << " slots";
    }
}

TEST_P(CudaCompile, BuildsProductsOfManyRowsWithoutSpills) {
    sample::PlanBuilder plan;
    const std::array<std::int64_t, 4> space{1, 1024, 768, 3072};
    const BufferId x = plan.buffer("x", DType::BF16, {1024, 3072}, BufferRole::Input);
    const BufferId w = plan.buffer("w", DType::BF16, {768, 3072}, BufferRole::Parameter);
    int number = 0;
    std::vector<ProductTile> tiles{{64, 64, 4}, {64, 128, 4}, {128, 128, 4}};
    if (std::string(GetParam()) == "sm_90a") tiles.push_back({128, 256, 4});
    for (const ProductTile& tile : tiles) {
        for (const bool columns : {false, true}) {
            const std::string name = "y" + std::to_string(number++);
            const BufferId y = plan.buffer(name, DType::BF16, {1024, 768}, BufferRole::Output);
            plan.add(name, sample::tiled(plan, x, w, y, space, tile, columns),
                     {Range{0, 1}, {0, tile.rows}, {0, tile.columns}, {}});
        }
    }
    for (const bool columns : {false, true}) {
        const std::string name = "ragged" + std::to_string(number++);
        const BufferId y = plan.buffer(name, DType::BF16, {1024, 768}, BufferRole::Output);
        const BufferId bounds = plan.buffer(name + ".bounds", DType::I64, {1024}, BufferRole::Input);
        MatMulRegion region = sample::tiled(plan, x, w, y, space, {128, 128, 4}, columns);
        Access bound = plan.access(bounds, {1, 1024, 1, 3072}, {0, 1, 0, 0});
        if (columns) bound.map.dims[1] = {atom(1024, 0)};
        region.ragged = Ragged{bound, bound, 3072};
        plan.add(name, region, {Range{0, 1}, {0, 128}, {0, 128}, {}});
    }
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
    EXPECT_TRUE(kernel.warnings.empty()) << kernel.log;
}

TEST_P(CudaCompile, ProductsOfOneBlockRunAheadLikeOthers) {
    const std::array<std::int64_t, 4> space{1, 1024, 384, 16};
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::BF16, {1024, 16}, BufferRole::Input);
    const BufferId w = plan.buffer("w", DType::BF16, {384, 16}, BufferRole::Parameter);
    std::vector<ProductTile> tiles{{64, 64, 4}, {128, 128, 4}};
    if (std::string(GetParam()) == "sm_90a") tiles.push_back({128, 192, 5});
    int number = 0;
    for (const ProductTile& tile : tiles) {
        for (const bool columns : {false, true}) {
            const std::string name = "y" + std::to_string(number++);
            const BufferId y = plan.buffer(name, DType::BF16, {1024, 384}, BufferRole::Output);
            plan.add(name, sample::tiled(plan, x, w, y, space, tile, columns),
                     {Range{0, 1}, {0, tile.rows}, {0, tile.columns}, {}});
        }
    }
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_TRUE(kernel.warnings.empty()) << kernel.log;
}

TEST_P(CudaCompile, BuildsExactProductsOfManyRowsWithoutSpills) {
    sample::PlanBuilder plan;
    const std::array<std::int64_t, 4> space{1, 1024, 768, 3072};
    const BufferId x = plan.buffer("x", DType::F32, {1024, 3072}, BufferRole::Input);
    const BufferId w = plan.buffer("w", DType::F32, {768, 3072}, BufferRole::Parameter);
    int number = 0;
    for (const ProductTile& tile :
         {ProductTile{16, 8, 6}, {16, 32, 6}, {32, 32, 6}, {32, 128, 5}, {64, 64, 5}, {128, 128, 5}}) {
        for (const bool columns : {false, true}) {
            const std::string name = "y" + std::to_string(number++);
            const BufferId y = plan.buffer(name, DType::F32, {1024, 768}, BufferRole::Output);
            MatMulRegion region = sample::tiled(plan, x, w, y, space, tile, columns);
            region.a_type = DType::F32;
            plan.add(name, region, {Range{0, 1}, {0, tile.rows}, {0, tile.columns}, {}});
        }
    }
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

/// Weights read 16 bytes at a time, columns or rows of them, of one row and of eight.
TEST_P(CudaCompile, BuildsProductsOfFewRowsWithoutSpills) {
    sample::PlanBuilder plan;
    int number = 0;
    for (const DType type : {DType::F32, DType::BF16}) {
        for (const std::int64_t m : {1, 8}) {
            for (const bool columns : {false, true}) {
                const std::string name = std::to_string(number++);
                const BufferId x = plan.buffer("x" + name, type, {m, 3072}, BufferRole::Input);
                const BufferId w = plan.buffer("w" + name, type, {768, 3072}, BufferRole::Parameter);
                const BufferId y = plan.buffer("y" + name, type, {m, 768}, BufferRole::Output);
                MatMulRegion region =
                    sample::tiled(plan, x, w, y, {1, m, 768, 3072}, {0, columns ? 16 : 0, 0}, columns);
                region.a_type = type;
                plan.add(name, region, {Range{0, 1}, {0, m}, {0, 16}, {}});
            }
        }
    }
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

/// Builds the cases of these names, of which there is one each.
void build_without_spills(const std::vector<Case>& cases, const std::set<std::string>& names,
                          const std::string& arch) {
    std::size_t built = 0;
    for (const Case& test : cases) {
        if (names.count(test.name) == 0) continue;
        ++built;
        const CompiledKernel kernel =
            compile_kernel(emit(planned(test.graph, machine()), machine()), arch, {.use_cache = false});
        EXPECT_EQ(kernel.spill_bytes, 0) << test.name;
        EXPECT_EQ(kernel.stack_bytes, 0) << test.name;
    }
    EXPECT_EQ(built, names.size());
}

TEST_P(CudaCompile, BuildsSumsOverScoresWithoutSpills) {
    build_without_spills(scored_cases(),
                         {"Scored_bf16_derivative_wide", "Scored_f16_derivative_before",
                          "Scored_bf16_both_before", "Scored_bf16_twice", "Scored_bf16_values",
                          "Scored_bf16_softmax_before_whole", "Scored_f16_both_columns_whole"},
                         GetParam());
}

TEST_P(CudaCompile, BuildsSumsOfSegmentsWithoutSpills) {
    int built = 0;
    for (const Case& test : reduce_cases()) {
        if (test.name.rfind("Reduce_segments", 0) != 0) continue;
        ++built;
        const Emission emission = emit(planned(test.graph, machine()), machine());
        EXPECT_EQ(emission.source.find("kVector = 1;"), std::string::npos) << test.name;
        const CompiledKernel kernel = compile_kernel(emission, GetParam(), {.use_cache = false});
        EXPECT_EQ(kernel.spill_bytes, 0) << test.name;
        EXPECT_EQ(kernel.stack_bytes, 0) << test.name;
    }
    EXPECT_EQ(built, 2);
}

TEST_P(CudaCompile, BuildsReductionsWithSeveralResultsWithoutSpills) {
    build_without_spills(
        reduce_cases(),
        {"Reduce_chained_bf16_9x776", "Reduce_several_bf16_72x150_strided", "Reduce_several_bf16_10x16504"},
        GetParam());
}

/// Weights, masks and statistics as programs have them, and the tiles that the planner gives them.
TEST(CudaGradients, OfAttentionAreBuiltWithoutSpills) {
    if (!cuda::Nvrtc::available()) GTEST_SKIP() << "no NVRTC library: set STRETTO_NVRTC";
    const Graph graph = attention_gradients(
        {.heads = 16, .key_heads = 4, .rows = 500, .depth = 64, .dropout = true, .bias = true});
    const Compiled program = compile(graph, {machine(), Numerics::Fused, {}});
    const CompiledKernel kernel = compile_kernel(program.emission, "sm_90a", {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
}

/// What reads and writes padded rows takes them in groups, and what is left of a row one by one.
TEST_P(CudaCompile, BuildsPaddedRowsWithoutSpills) {
    const std::vector<Case> cases = chain_cases();
    const auto odd = std::find_if(cases.begin(), cases.end(),
                                  [](const Case& test) { return test.name == "Chain_odd_rows"; });
    ASSERT_NE(odd, cases.end());
    const Emission emission = emit(planned(odd->graph, machine()), machine());
    EXPECT_NE(emission.source.find("MapRows<"), std::string::npos);
    EXPECT_NE(emission.source.find("kRest = true"), std::string::npos);
    EXPECT_EQ(emission.source.find("kLeftGrain = 1;"), std::string::npos);
    const CompiledKernel kernel = compile_kernel(emission, GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
}

TEST_P(CudaCompile, BuildsDoublePrecision) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::F64, {4, 100}, BufferRole::Input);
    const BufferId w = plan.buffer("w", DType::F64, {100, 64}, BufferRole::Parameter);
    const BufferId y = plan.buffer("y", DType::F64, {4, 64}, BufferRole::Output);
    const BufferId sums = plan.buffer("sums", DType::F64, {4}, BufferRole::Output);
    plan.add("product", sample::direct(plan, x, w, y, {1, 4, 64, 100}), {Range{0, 1}, {0, 4}, {0, 64}, {}});
    plan.add("sums", sample::row_sums(plan, y, sums, {4, 64}), {Range{0, 4}, {}, {}, {}});
    const CompiledKernel kernel =
        compile_kernel(emit(plan.finish(machine()), machine()), GetParam(), {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
}

/// A decode step of one layer, by a name for the shape.
struct DecodeCase {
    const char* name;
    DecodeSizes sizes;
};

class CudaDecode : public testing::TestWithParam<DecodeCase> {};

/// A register that some path reads unwritten is live in the whole kernel: fifty of them make all kinds spill, and then they are
/// built as calls, which costs a decode step a sixth of its time.
TEST_P(CudaDecode, KindsShareAFunctionWithoutSpills) {
    if (!cuda::Nvrtc::available()) GTEST_SKIP() << "no NVRTC library: set STRETTO_NVRTC";
    const Compiled program = compile(decode_graph(GetParam().sizes), {machine(), Numerics::Fused, {}});
    const CompiledKernel kernel = compile_kernel(program.emission, "sm_90a", {.use_cache = false});
    EXPECT_EQ(kernel.spill_bytes, 0);
    EXPECT_EQ(kernel.stack_bytes, 0);
    EXPECT_LE(kernel.registers, GetParam().sizes.context > 128 ? 168 : 160);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaDecode,
                         testing::Values(DecodeCase{"M135", {1, 1, 576, 9, 3, 64, 1536, 4096, 128}},
                                         DecodeCase{"M135Batch8", {1, 8, 576, 9, 3, 64, 1536, 4096, 128}},
                                         DecodeCase{"B0_5", {1, 1, 896, 14, 2, 64, 4864, 4096, 128}},
                                         DecodeCase{"B1", {1, 1, 2048, 32, 8, 64, 8192, 4096, 128}},
                                         DecodeCase{"B1Batch8", {1, 8, 2048, 32, 8, 64, 8192, 4096, 128}},
                                         DecodeCase{"B1Context8192",
                                                    {1, 1, 2048, 32, 8, 64, 8192, 4096, 8192}},
                                         DecodeCase{"B1_7", {1, 1, 2048, 32, 32, 64, 8192, 4096, 128}}),
                         [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(Architectures, CudaCompile, testing::Values("sm_80", "sm_90a", "sm_120"));

TEST(CudaCompileErrors, ShowTheCompilersMessage) {
    if (!cuda::Nvrtc::available()) GTEST_SKIP() << "no NVRTC library: set STRETTO_NVRTC";
    Emission broken;
    broken.source = "#include <stretto/program.h>\nint x = no_such_name;\n";
    try {
        static_cast<void>(compile_kernel(broken, "sm_90a", {.use_cache = false}));
        FAIL() << "accepted";
    } catch (const InternalError& error) {
        EXPECT_NE(std::string(error.what()).find("no_such_name"), std::string::npos);
    }
}

class KernelCacheTest : public testing::Test {
protected:
    std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                   testing::UnitTest::GetInstance()->current_test_info()->name();
    cuda::KernelCache cache{folder};

    void SetUp() override { std::filesystem::remove_all(folder); }
    void TearDown() override { std::filesystem::remove_all(folder); }
};

TEST_F(KernelCacheTest, GivesBackWhatWasStored) {
    cache.store("key", {{std::byte{1}, std::byte{0}, std::byte{3}}, "log"}, "source");
    const auto entry = cache.find("key");
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->cubin, (std::vector{std::byte{1}, std::byte{0}, std::byte{3}}));
    EXPECT_EQ(entry->log, "log");
}

TEST_F(KernelCacheTest, TakesADamagedEntryForMissing) {
    cache.store("key", {{std::byte{1}, std::byte{2}}, "log"}, "source");
    std::fstream file(folder / "key.kernel", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');
    file.close();
    EXPECT_FALSE(cache.find("key"));
}

TEST_F(KernelCacheTest, KnowsNothingOfOtherKeys) {
    cache.store("key", {{std::byte{1}}, ""}, "source");
    EXPECT_FALSE(cache.find("other"));
}

}  // namespace
}  // namespace stretto
