#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace stretto {

/// k values that one warp takes in one step of a streamed row: 8 neighbours for each lane.
inline constexpr std::int64_t kDotStep = 256;

/// Values of one left-side row in the order in which the lanes take them, padded with zeros to whole steps.
[[nodiscard]] inline std::int64_t packed_size(std::int64_t depth) {
    return (depth + kDotStep - 1) / kDotStep * kDotStep;
}

/// Writes packed_size(depth) values: step by step, first every lane's first neighbour, then its second, ...
template <class T>
void pack_left(const T* row, std::int64_t depth, T* packed) {
    for (std::int64_t step = 0; step < packed_size(depth); step += kDotStep) {
        for (std::int64_t j = 0; j < 8; ++j) {
            for (std::int64_t lane = 0; lane < 32; ++lane) {
                const std::int64_t k = step + lane * 8 + j;
                packed[step + j * 32 + lane] = k < depth ? row[k] : T{0};
            }
        }
    }
}

/// out[m * out_stride + n] = sum over k of left(m, k) * row n (k), summed as a warp does: lane l adds products of
/// k = step * 256 + l * 8 + j in ascending order with fma, then a butterfly adds the lanes.
/// `left` holds `left_rows` packed rows, one after the other. Rows hold `depth` elements of `type`.
void dot_rows(const float* left, std::int64_t left_rows, const std::byte* const* rows, std::int64_t row_count,
              DType type, std::int64_t depth, float* out, std::int64_t out_stride);
void dot_rows(const double* left, std::int64_t left_rows, const std::byte* const* rows,
              std::int64_t row_count, DType type, std::int64_t depth, double* out, std::int64_t out_stride);

/// sums[i] = fma(scale, values[i], sums[i]).
void add_scaled(float scale, const float* values, float* sums, std::int64_t count);
void add_scaled(double scale, const double* values, double* sums, std::int64_t count);

/// sums[i] = fma(a[i], b[i], sums[i]).
void add_products(const float* a, const float* b, float* sums, std::int64_t count);

}  // namespace stretto
