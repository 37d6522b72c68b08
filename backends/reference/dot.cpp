#include "backends/reference/dot.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/reference/convert.h"
#include "backends/reference/warp.h"
#include "base/box.h"

// The inner loops are written once and compiled for several instruction sets: the functions named after one inline them
// under its target. They are plain loops for the vectorizer rather than vector types, because GCC splits vector types
// to the width of the function in which they are written, before it inlines.
#define STRETTO_INLINE __attribute__((always_inline)) inline

namespace stretto {
namespace {

/// Most products (rows x left sides) that one call keeps in flight.
constexpr std::int64_t kInFlight = 4;

struct DotArguments {
    const float* left = nullptr;  ///< packed rows
    std::int64_t left_stride = 0;
    std::array<const std::byte*, kInFlight> rows{};
    std::int64_t steps = 0;
    float* sums = nullptr;  ///< [row][left row][lane], added to
};

/// The 8 neighbours of one lane of a bf16 row.
STRETTO_INLINE void neighbours(const std::uint16_t* row, int lane, float* out) {
    std::uint32_t pairs[4];
    std::memcpy(pairs, row + lane * 8, sizeof pairs);
    for (int i = 0; i < 4; ++i) {
        out[2 * i] = std::bit_cast<float>(pairs[i] << 16);
        out[2 * i + 1] = std::bit_cast<float>(pairs[i] & 0xffff0000U);
    }
}

STRETTO_INLINE void neighbours(const float* row, int lane, float* out) {
    for (int j = 0; j < 8; ++j) out[j] = row[lane * 8 + j];
}

template <class Element, int R, int M>
STRETTO_INLINE void dot_steps(const DotArguments& arguments) {
    float sums[R][M][kWarp];
    std::memcpy(sums, arguments.sums, sizeof sums);
    for (std::int64_t step = 0; step < arguments.steps; ++step) {
        for (int r = 0; r < R; ++r) {
            const auto* row = reinterpret_cast<const Element*>(arguments.rows[r]) + step * kDotStep;
            for (int lane = 0; lane < kWarp; ++lane) {
                float w[8];
                neighbours(row, lane, w);
                for (int m = 0; m < M; ++m) {
                    const float* left = arguments.left + m * arguments.left_stride + step * kDotStep + lane;
                    float sum = sums[r][m][lane];
                    for (int j = 0; j < 8; ++j) sum = std::fma(left[j * kWarp], w[j], sum);
                    sums[r][m][lane] = sum;
                }
            }
        }
    }
    std::memcpy(arguments.sums, sums, sizeof sums);
}

template <class Element>
STRETTO_INLINE void dot_shape(std::int64_t rows, std::int64_t lefts, const DotArguments& arguments) {
    if (rows == 4) return dot_steps<Element, 4, 1>(arguments);
    if (rows == 2) return dot_steps<Element, 2, 2>(arguments);
    if (lefts == 4) return dot_steps<Element, 1, 4>(arguments);
    if (lefts == 2) return dot_steps<Element, 1, 2>(arguments);
    dot_steps<Element, 1, 1>(arguments);
}

STRETTO_INLINE void dot_any(DType type, std::int64_t rows, std::int64_t lefts,
                            const DotArguments& arguments) {
    if (type == DType::BF16) return dot_shape<std::uint16_t>(rows, lefts, arguments);
    dot_shape<float>(rows, lefts, arguments);
}

STRETTO_INLINE void add_scaled_any(float scale, const float* values, float* sums, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = std::fma(scale, values[i], sums[i]);
}

STRETTO_INLINE void add_products_any(const float* a, const float* b, float* sums, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = std::fma(a[i], b[i], sums[i]);
}

using Dot = void (*)(DType, std::int64_t, std::int64_t, const DotArguments&);
using AddScaled = void (*)(float, const float*, float*, std::int64_t);

using AddProducts = void (*)(const float*, const float*, float*, std::int64_t);

struct Kernels {
    Dot dot;
    AddScaled add_scaled;
    AddProducts add_products;
};

void dot_plain(DType type, std::int64_t rows, std::int64_t lefts, const DotArguments& arguments) {
    dot_any(type, rows, lefts, arguments);
}
void add_scaled_plain(float scale, const float* values, float* sums, std::int64_t count) {
    add_scaled_any(scale, values, sums, count);
}
void add_products_plain(const float* a, const float* b, float* sums, std::int64_t count) {
    add_products_any(a, b, sums, count);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define STRETTO_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#define STRETTO_AVX2 __attribute__((target("avx2,fma")))

STRETTO_AVX512 void dot_avx512(DType type, std::int64_t rows, std::int64_t lefts,
                               const DotArguments& arguments) {
    dot_any(type, rows, lefts, arguments);
}
STRETTO_AVX512 void add_scaled_avx512(float scale, const float* values, float* sums, std::int64_t count) {
    add_scaled_any(scale, values, sums, count);
}
STRETTO_AVX512 void add_products_avx512(const float* a, const float* b, float* sums, std::int64_t count) {
    add_products_any(a, b, sums, count);
}
STRETTO_AVX2 void dot_avx2(DType type, std::int64_t rows, std::int64_t lefts, const DotArguments& arguments) {
    dot_any(type, rows, lefts, arguments);
}
STRETTO_AVX2 void add_scaled_avx2(float scale, const float* values, float* sums, std::int64_t count) {
    add_scaled_any(scale, values, sums, count);
}
STRETTO_AVX2 void add_products_avx2(const float* a, const float* b, float* sums, std::int64_t count) {
    add_products_any(a, b, sums, count);
}

Kernels best_kernels() {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return {dot_avx512, add_scaled_avx512, add_products_avx512};
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return {dot_avx2, add_scaled_avx2, add_products_avx2};
    return {dot_plain, add_scaled_plain, add_products_plain};
}
#else
Kernels best_kernels() { return {dot_plain, add_scaled_plain, add_products_plain}; }
#endif

const Kernels& kernels() {
    static const Kernels chosen = best_kernels();
    return chosen;
}

/// Rows as the loops need them: whole steps of bf16 or f32. Others are converted; the last part of a row is padded.
class RowSteps {
public:
    RowSteps(DType type, std::int64_t depth)
        : type_(type),
          depth_(depth),
          whole_(type == DType::BF16 || type == DType::F32 ? depth / kDotStep * kDotStep : 0),
          tails_(static_cast<std::size_t>((packed_size(depth) - whole_) * kInFlight)) {}

    [[nodiscard]] DType whole_type() const { return type_ == DType::BF16 ? DType::BF16 : DType::F32; }
    [[nodiscard]] std::int64_t whole() const { return whole_; }
    [[nodiscard]] std::int64_t tail() const { return packed_size(depth_) - whole_; }

    [[nodiscard]] const std::byte* tail_of(const std::byte* row, std::int64_t slot) {
        float* out = tails_.data() + slot * tail();
        read_lanes(row + whole_ * size_of(type_), type_, 1, depth_ - whole_, out, Domain::F32);
        return reinterpret_cast<const std::byte*>(out);
    }

private:
    DType type_;
    std::int64_t depth_;
    std::int64_t whole_;
    std::vector<float> tails_;
};

}  // namespace

void dot_rows(const float* left, std::int64_t left_rows, const std::byte* const* rows, std::int64_t row_count,
              DType type, std::int64_t depth, LaneSum lane_sum, float* out, std::int64_t out_stride) {
    RowSteps steps(type, depth);
    const std::int64_t stride = packed_size(depth);
    const std::int64_t all = stride / kDotStep;
    const std::int64_t whole = steps.whole() / kDotStep;
    const std::int64_t run = lane_sum.steps_together(all);
    std::vector<float> shares(static_cast<std::size_t>(kInFlight * lane_sum.shares()));
    alignas(64) float sums[kInFlight * kWarp];
    for (std::int64_t m = 0; m < left_rows;) {
        const std::int64_t lefts = left_rows - m >= 4 ? 4 : left_rows - m >= 2 ? 2 : 1;
        for (std::int64_t n = 0; n < row_count;) {
            const std::int64_t together = row_count - n >= kInFlight / lefts ? kInFlight / lefts : 1;
            std::array<const std::byte*, kInFlight> tails{};
            for (std::int64_t r = 0; r < together && whole < all; ++r)
                tails[r] = steps.tail_of(rows[n + r], r);
            std::fill(shares.begin(), shares.end(), 0.0F);
            for (std::int64_t first = 0; first < all; first += run) {
                const std::int64_t last = std::min(first + run, all);
                std::fill_n(sums, kInFlight * kWarp, 0.0F);
                const auto multiply = [&](DType as, const std::byte* const* from, Range part,
                                          std::int64_t skipped) {
                    const std::int64_t bytes =
                        (part.begin - skipped) * kDotStep * static_cast<std::int64_t>(size_of(as));
                    DotArguments arguments{
                        left + m * stride + part.begin * kDotStep, stride, {}, part.size(), sums};
                    for (std::int64_t r = 0; r < together; ++r) arguments.rows[r] = from[r] + bytes;
                    kernels().dot(as, together, lefts, arguments);
                };
                if (first < whole) multiply(steps.whole_type(), rows + n, {first, std::min(last, whole)}, 0);
                if (last > whole) multiply(DType::F32, tails.data(), {std::max(first, whole), last}, whole);
                for (std::int64_t i = 0; i < together * lefts; ++i)
                    lane_sum.add(sums + i * kWarp, first, shares.data() + i * lane_sum.shares());
            }
            for (std::int64_t r = 0; r < together; ++r) {
                for (std::int64_t i = 0; i < lefts; ++i) {
                    out[(m + i) * out_stride + n + r] =
                        lane_sum.total(shares.data() + (r * lefts + i) * lane_sum.shares());
                }
            }
            n += together;
        }
        m += lefts;
    }
}

void dot_rows(const double* left, std::int64_t left_rows, const std::byte* const* rows,
              std::int64_t row_count, DType type, std::int64_t depth, LaneSum lane_sum, double* out,
              std::int64_t out_stride) {
    std::vector<double> row(static_cast<std::size_t>(packed_size(depth)), 0.0);
    const std::int64_t all = packed_size(depth) / kDotStep;
    const std::int64_t run = lane_sum.steps_together(all);
    std::vector<double> shares(static_cast<std::size_t>(lane_sum.shares()));
    for (std::int64_t n = 0; n < row_count; ++n) {
        read_lanes(rows[n], type, 1, depth, row.data(), Domain::F64);
        for (std::int64_t m = 0; m < left_rows; ++m) {
            std::fill(shares.begin(), shares.end(), 0.0);
            for (std::int64_t first = 0; first < all; first += run) {
                double sums[kWarp] = {};
                for (std::int64_t step = first; step < std::min(first + run, all); ++step) {
                    const double* packed = left + m * packed_size(depth) + step * kDotStep;
                    for (std::int64_t i = 0; i < kDotStep; ++i) {
                        double& sum = sums[i % kWarp];
                        sum = std::fma(packed[i], row[step * kDotStep + i % kWarp * 8 + i / kWarp], sum);
                    }
                }
                lane_sum.add(sums, first, shares.data());
            }
            out[m * out_stride + n] = lane_sum.total(shares.data());
        }
    }
}

void add_scaled(float scale, const float* values, float* sums, std::int64_t count) {
    kernels().add_scaled(scale, values, sums, count);
}

void add_scaled(double scale, const double* values, double* sums, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = std::fma(scale, values[i], sums[i]);
}

void add_products(const float* a, const float* b, float* sums, std::int64_t count) {
    kernels().add_products(a, b, sums, count);
}

}  // namespace stretto
