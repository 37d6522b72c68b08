#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/compile.h"
#include "backends/cuda/device_headers.h"
#include "backends/cuda/nvrtc.h"
#include "pipeline/pipeline.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

/// A kernel that lays a hand on what its product is still adding to.
constexpr const char* kHasty = R"(
extern "C" __global__ void hasty(float* out, unsigned long long a, unsigned long long b, int turns) {
    float d[4] = {};
    for (int turn = 0; turn < turns; ++turn) {
        asm volatile("wgmma.fence.sync.aligned;");
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "l"(a), "l"(b));
        asm volatile("wgmma.commit_group.sync.aligned;");
        d[0] *= d[0];
        asm volatile("wgmma.wait_group.sync.aligned 0;");
    }
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
)";

TEST(CudaWarnings, ProductsThatTheCompilerSerializesAreReportedWithTheirKinds) {
    if (!cuda::Nvrtc::available()) GTEST_SKIP() << "no NVRTC";
    const Machine machine = builtin_machine("h200");
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::BF16, {128, 64}, BufferRole::Input);
    const BufferId w = plan.buffer("w", DType::BF16, {64, 64}, BufferRole::Parameter);
    const BufferId y = plan.buffer("y", DType::BF16, {128, 64}, BufferRole::Output);
    plan.add("product", sample::tiled(plan, x, w, y, {1, 128, 64, 64}, {64, 64, 4}, false),
             {Range{0, 1}, {0, 64}, {0, 64}, {}});
    Emission emission = emit(plan.finish(machine), machine);
    EXPECT_TRUE(compile_kernel(emission, "sm_90a", {.use_cache = false}).warnings.empty());
    emission.source += kHasty;
    const CompiledKernel kernel = compile_kernel(emission, "sm_90a", {.use_cache = false});
    ASSERT_EQ(kernel.warnings.size(), 1U) << kernel.log;
    EXPECT_EQ(
        kernel.warnings[0].find("products of this program run slower on sm_90a than they should "
                                "(MatMulTiles<Product_0>): wgmma.mma_async instructions are serialized"),
        0U)
        << kernel.warnings[0];
}

TEST(CudaWarnings, KindsThatRunAheadAreThoseOfTheDeviceProgram) {
    const auto headers = device_headers();
    const auto program = std::find_if(headers.begin(), headers.end(), [](const DeviceHeader& header) {
        return std::string_view(header.name) == "stretto/program.h";
    });
    ASSERT_NE(program, headers.end());
    EXPECT_EQ(kinds_that_run_ahead(program->text), (std::vector<std::string>{"MatMulTiles", "Scored"}));
    EXPECT_TRUE(kinds_that_run_ahead("inline constexpr bool kRunsAhead = false;").empty());
}

TEST(CudaWarnings, ALossIsReportedOnce) {
    const std::string loss =
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
        "to x\n";
    EXPECT_EQ(losses_in(loss + "ptxas info    : Used 32 registers\n" + loss),
              std::vector<std::string>{"wgmma.mma_async instructions are serialized due to x"});
    EXPECT_TRUE(losses_in("ptxas info    : Used 32 registers\n").empty());
}

}  // namespace
}  // namespace stretto
