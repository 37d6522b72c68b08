#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/rounding.h"
#include "runtime/tensors.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const HostTensor& tensor) {
    return {reinterpret_cast<const char*>(tensor.bytes.get()), tensor.size};
}

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class NpyTest : public testing::Test {
protected:
    void TearDown() override { fs::remove(path_); }

    std::string error() const {
        try {
            static_cast<void>(read_npy(path_));
        } catch (const UserError& error) {
            return std::string(error.what()).substr(path_.size());
        }
        return "no error";
    }

    const std::string path_ =
        (fs::temp_directory_path() / ("stretto-" + std::to_string(::getpid()) + ".npy")).string();
};

TEST(RandomTensor, DependsOnTheSeedAlone) {
    EXPECT_EQ(bytes_of(random_tensor(DType::BF16, {3, 5}, 7)),
              bytes_of(random_tensor(DType::BF16, {3, 5}, 7)));
    EXPECT_NE(bytes_of(random_tensor(DType::BF16, {3, 5}, 7)),
              bytes_of(random_tensor(DType::BF16, {3, 5}, 8)));
}

TEST(RandomTensor, IntegersAreSmallAndVary) {
    const std::string bytes = bytes_of(random_tensor(DType::U8, {200}, 1));
    const std::set<char> values(bytes.begin(), bytes.end());
    EXPECT_EQ(values.size(), 10U);
    EXPECT_EQ(*values.rbegin(), 9);
}

TEST(Converted, RoundsFloatsToNearest) {
    const HostTensor narrow = converted(random_tensor(DType::F32, {64}, 3), DType::BF16);
    const HostTensor wide = random_tensor(DType::F32, {64}, 3);
    for (std::size_t i = 0; i < 64; ++i) {
        float value = 0;
        std::uint16_t bits = 0;
        std::memcpy(&value, wide.bytes.get() + i * 4, 4);
        std::memcpy(&bits, narrow.bytes.get() + i * 2, 2);
        EXPECT_EQ(bits, f32_to_bf16(value));
    }
}

TEST(Converted, RefusesToTurnFloatsIntoIntegers) {
    EXPECT_THROW(static_cast<void>(converted(random_tensor(DType::F32, {2}, 3), DType::I64)), UserError);
}

TEST(Converted, RefusesAnIntegerThatDoesNotFit) {
    const auto big = std::make_shared<std::int64_t>(std::int64_t{1} << 40);
    const HostTensor tensor{DType::I64, {1}, {big, reinterpret_cast<const std::byte*>(big.get())}, 8};
    try {
        static_cast<void>(converted(tensor, DType::I32));
        FAIL();
    } catch (const UserError& error) {
        EXPECT_STREQ(error.what(), "element 0 is 1099511627776, which i32 cannot hold");
    }
}

TEST_F(NpyTest, EveryTypeComesBackAsItWas) {
    for (const DType dtype :
         {DType::Bool, DType::U8, DType::I32, DType::I64, DType::F16, DType::F32, DType::F64}) {
        for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 4}}) {
            const HostTensor tensor = random_tensor(dtype, shape, 11);
            write_npy(path_, tensor);
            const HostTensor back = read_npy(path_);
            EXPECT_EQ(back.dtype, dtype);
            EXPECT_EQ(back.shape, shape);
            EXPECT_EQ(bytes_of(back), bytes_of(tensor));
        }
    }
}

TEST_F(NpyTest, Bf16IsWrittenAsTheSameNumbersInF32) {
    const HostTensor tensor = random_tensor(DType::BF16, {9}, 5);
    write_npy(path_, tensor);
    EXPECT_EQ(read_npy(path_).dtype, DType::F32);
    EXPECT_EQ(bytes_of(converted(read_npy(path_), DType::BF16)), bytes_of(tensor));
}

TEST_F(NpyTest, AFileOfAnotherKindIsAnError) {
    std::ofstream(path_) << "not numbers at all";
    EXPECT_EQ(error(), ": is not a .npy file");
}

TEST_F(NpyTest, MissingDataIsAnErrorWithTheSizes) {
    write_npy(path_, random_tensor(DType::F32, {2, 3}, 5));
    fs::resize_file(path_, fs::file_size(path_) - 1);
    EXPECT_EQ(error(), ": f32[2,3] does not fit its 23 bytes of data");
}

TEST_F(NpyTest, AnyTruncationIsAnError) {
    write_npy(path_, random_tensor(DType::F32, {2, 3}, 5));
    const std::string whole = contents(path_);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        std::ofstream(path_, std::ios::binary) << whole.substr(0, size);
        EXPECT_NE(error(), "no error") << size;
    }
}

}  // namespace
}  // namespace stretto
