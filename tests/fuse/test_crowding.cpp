#include <gtest/gtest.h>

#include <set>

#include "abi/abi.h"
#include "fuse/fuse.h"
#include "graph/builder.h"

namespace stretto {
namespace {

/// A residual stream of `links` normalized products: every link is cheap to recompute from what is stored.
Graph residual_stream(int links) {
    GraphBuilder b;
    Tensor x = b.input(Role::User, "x", DType::BF16, {1, 64});
    for (int i = 0; i < links; ++i) {
        const Tensor weight = b.input(Role::Parameter, "w" + std::to_string(i), DType::BF16, {64, 64});
        const Tensor y = b.linear(x, weight, std::nullopt);
        const Tensor squares = b.apply(Op::Mul, {y, y}, DType::F32);
        const Tensor norm =
            b.apply(Op::Rsqrt, {b.reduce(ReduceOp::Sum, squares, {-1}, true, DType::F32)}, DType::F32);
        x = b.apply(Op::Add, {x, b.apply(Op::Mul, {y, norm}, DType::BF16)}, DType::BF16);
    }
    b.output(x, "y");
    return b.finish();
}

std::size_t most_buffers(const RegionGraph& regions) {
    std::size_t most = 0;
    for (const Region& region : regions.regions) {
        std::set<std::int32_t> buffers;
        for (const Use& use : uses(region)) buffers.insert(use.access->source);
        most = std::max(most, buffers.size());
    }
    return most;
}

TEST(FuseCrowding, ALongResidualStreamIsStoredNowAndThen) {
    const RegionGraph regions = fuse(residual_stream(40), builtin_machine("h200"));
    EXPECT_LE(most_buffers(regions), static_cast<std::size_t>(abi::kMaxOperands));
}

TEST(FuseCrowding, AValueOfManyFewOperandExpressionsReadsSomeOfThemStored) {
    GraphBuilder b;
    std::vector<Tensor> sums;
    for (int group = 0; group < 6; ++group) {
        Tensor sum = b.input(Role::User, "x" + std::to_string(group), DType::F32, {64});
        for (int i = 1; i < 6; ++i) {
            const std::string name = "x" + std::to_string(group) + std::to_string(i);
            sum = b.apply(Op::Add, {sum, b.input(Role::User, name, DType::F32, {64})}, DType::F32);
        }
        sums.push_back(sum);
    }
    b.output(b.concat(sums, 0), "all");
    const RegionGraph regions = fuse(b.finish(), builtin_machine("h200"));
    EXPECT_LE(most_buffers(regions), static_cast<std::size_t>(abi::kMaxOperands));
}

TEST(FuseCrowding, AProductOfSeveralStoresReadsItsLeftSideOrTheirOperandsStored) {
    GraphBuilder b;
    const auto sum_of = [&b](const std::string& name, int count) {
        Tensor sum = b.input(Role::User, name, DType::F32, {1, 64});
        for (int i = 1; i < count; ++i) {
            const Tensor next = b.input(Role::User, name + std::to_string(i), DType::F32, {1, 64});
            sum = b.apply(Op::Add, {sum, next}, DType::F32);
        }
        return sum;
    };
    const Tensor weight = b.input(Role::Parameter, "w", DType::F32, {64, 64});
    const Tensor product = b.linear(sum_of("x", 7), weight, std::nullopt);
    b.output(b.apply(Op::Add, {product, sum_of("y", 4)}, DType::F32), "first");
    b.output(b.apply(Op::Mul, {product, sum_of("z", 5)}, DType::F32), "second");
    const RegionGraph regions = fuse(b.finish(), builtin_machine("h200"));
    EXPECT_LE(most_buffers(regions), static_cast<std::size_t>(abi::kMaxOperands));
}

TEST(FuseCrowding, AnOuterProductReadsItsFactorsStored) {
    GraphBuilder b;
    const auto sum_of = [&b](const std::string& name, int count, const Shape& shape) {
        Tensor sum = b.input(Role::User, name, DType::F32, shape);
        for (int i = 1; i < count; ++i) {
            const Tensor next = b.input(Role::User, name + std::to_string(i), DType::F32, shape);
            sum = b.apply(Op::Add, {sum, next}, DType::F32);
        }
        return sum;
    };
    const Tensor product = b.apply(Op::Mul, {sum_of("u", 7, {64, 1}), sum_of("v", 5, {1, 64})}, DType::F32);
    b.output(b.apply(Op::Sub, {sum_of("w", 7, {64, 64}), product}, DType::F32), "y");
    const RegionGraph regions = fuse(b.finish(), builtin_machine("h200"));
    EXPECT_LE(most_buffers(regions), static_cast<std::size_t>(abi::kMaxOperands));
    std::int64_t stored = 0;
    for (const Buffer& buffer : regions.buffers) {
        if (buffer.role != BufferRole::Arena) continue;
        ++stored;
        EXPECT_EQ(volume(buffer.shape), 64) << buffer.name;
    }
    EXPECT_EQ(stored, 1) << "one factor is enough";
}

TEST(FuseCrowding, AShortOneIsRecomputed) {
    const RegionGraph few = fuse(residual_stream(4), builtin_machine("h200"));
    EXPECT_GT(most_buffers(few), 4U);
}

}  // namespace
}  // namespace stretto
