#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/builder_test.h"

namespace stretto {
namespace {

Elements product(const Elements& x, const Elements& y, std::size_t m, std::size_t n, std::size_t k) {
    Elements out(m * n, 0);
    for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            for (std::size_t l = 0; l < k; ++l) out[i * n + j] += x[i * k + l] * y[l * n + j];
        }
    }
    return out;
}

TEST_F(BuilderTest, MatmulBroadcastsLeadingDimensions) {
    const Tensor x = random({2, 1, 3, 4}), y = random({5, 4, 2});
    const Elements xs = elements_of(x), ys = elements_of(y);
    Elements wanted;
    for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t j = 0; j < 5; ++j) {
            const auto part = product({xs.begin() + static_cast<std::ptrdiff_t>(i * 12), xs.end()},
                                      {ys.begin() + static_cast<std::ptrdiff_t>(j * 8), ys.end()}, 3, 2, 4);
            wanted.insert(wanted.end(), part.begin(), part.end());
        }
    }
    const Tensor out = b.matmul(x, y);
    EXPECT_EQ(out.shape(), (Shape{2, 5, 3, 2}));
    expect_near(elements_of(out), wanted);
}

TEST_F(BuilderTest, LinearFoldsLeadingDimensionsIntoRows) {
    const Tensor x = random({2, 3, 4}), w = random({5, 4});
    const Tensor out = b.linear(x, w, std::nullopt);
    EXPECT_EQ(out.shape(), (Shape{2, 3, 5}));
    EXPECT_EQ(op_of<Contract>(out).space, (std::array<std::int64_t, 4>{1, 6, 5, 4}));
    expect_near(elements_of(out),
                product(elements_of(x), elements_of(b.contiguous(b.transpose(w, 0, 1))), 6, 5, 4));
}

TEST_F(BuilderTest, LinearRoundsOnceAfterTheBias) {
    const Tensor x = random({2, 8}, DType::BF16), w = random({3, 8}, DType::BF16);
    const Tensor out = b.linear(x, w, random({3}, DType::BF16));
    EXPECT_EQ(out.dtype, DType::BF16);
    const Access& sums = op_of<Pointwise>(out).expr.accesses.front();
    EXPECT_EQ(sums.type, DType::F32);
}

TEST_F(BuilderTest, AProductOverOneElementIsPointwise) {
    const Tensor x = random({1, 4, 1}), y = random({1, 1, 3});
    const Tensor out = b.matmul(x, y);
    EXPECT_TRUE(std::holds_alternative<Pointwise>(b.graph()[out.value].op));
    expect_near(elements_of(out), product(elements_of(x), elements_of(y), 4, 3, 1));
}

Elements attention(const Elements& q, const Elements& k, const Elements& v, std::size_t heads,
                   std::size_t group, std::size_t rows, std::size_t s, std::size_t d, bool causal) {
    Elements out(heads * rows * d, 0);
    for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t i = 0; i < rows; ++i) {
            Elements weights;
            double total = 0;
            for (std::size_t j = 0; j < (causal ? std::min(s, i + 1) : s); ++j) {
                double dot = 0;
                for (std::size_t e = 0; e < d; ++e) {
                    dot += q[(h * rows + i) * d + e] * k[(h / group * s + j) * d + e];
                }
                weights.push_back(std::exp(0.5 * dot));
                total += weights.back();
            }
            for (std::size_t j = 0; j < weights.size(); ++j) {
                for (std::size_t e = 0; e < d; ++e) {
                    out[(h * rows + i) * d + e] += weights[j] / total * v[(h / group * s + j) * d + e];
                }
            }
        }
    }
    return out;
}

TEST_F(BuilderTest, AttentionSharesKeyHeadsBetweenGroups) {
    const Tensor q = random({1, 4, 2, 3}), k = random({1, 2, 5, 3}), v = random({1, 2, 5, 3});
    expect_near(elements_of(b.attention(q, k, v, std::nullopt, false, 0.5)),
                attention(elements_of(q), elements_of(k), elements_of(v), 4, 2, 2, 5, 3, false));
}

TEST_F(BuilderTest, RepeatedKeyHeadsAndGroupedOnesAreTheSameOperation) {
    const Tensor q = random({1, 4, 2, 3}), k = random({1, 2, 5, 3}), v = random({1, 2, 5, 3});
    const auto repeated = [&](const Tensor& x) {
        return b.reshape(b.expand(b.unsqueeze(x, 2), {1, 2, 2, 5, 3}), {1, 4, 5, 3});
    };
    const Tensor grouped = b.attention(q, k, v, std::nullopt, false, 0.5);
    const Tensor spelled = b.attention(q, repeated(k), repeated(v), std::nullopt, false, 0.5);
    EXPECT_EQ(op_of<Attention>(grouped), op_of<Attention>(spelled));
}

TEST_F(BuilderTest, CausalAttentionSeesEarlierKeys) {
    const Tensor q = random({1, 2, 4, 3}), k = random({1, 2, 4, 3}), v = random({1, 2, 4, 3});
    expect_near(elements_of(b.attention(q, k, v, std::nullopt, true, 0.5)),
                attention(elements_of(q), elements_of(k), elements_of(v), 2, 1, 4, 4, 3, true));
}

TEST_F(BuilderTest, AttentionMasksByBoolOrAddsABias) {
    const Tensor q = random({1, 1, 1, 3}), k = random({1, 1, 3, 3}), v = random({1, 1, 3, 3});
    const double never = -INFINITY;
    const Tensor allowed = given({1, 3}, DType::Bool, {1, 1, 0});
    const Tensor bias = given({1, 3}, DType::F32, {0, 0, never});
    const Elements wanted =
        elements_of(b.attention(q, b.slice(k, 2, 0, 2), b.slice(v, 2, 0, 2), std::nullopt, false, 0.5));
    expect_near(elements_of(b.attention(q, k, v, allowed, false, 0.5)), wanted);
    expect_near(elements_of(b.attention(q, k, v, bias, false, 0.5)), wanted);
}

}  // namespace
}  // namespace stretto
