#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backends/cuda/compile.h"
#include "backends/cuda/kernel_cache.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"
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
