#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "backends/reference/warp.h"
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

/// How the sums of 32 lanes become one: by a butterfly, as one warp adds its lanes, or as the warps that share a panel do.
class LaneSum {
public:
    /// `panel_warps`: consumer warps that share a panel; 0: a butterfly.
    explicit LaneSum(std::int64_t panel_warps) : warps_(panel_warps) {}

    /// Shares that are added at the end: one of each warp.
    [[nodiscard]] std::int64_t shares() const { return std::max<std::int64_t>(warps_, 1); }

    /// Steps after which the lanes must be added to the shares: in the next step a lane may be another warp's.
    [[nodiscard]] std::int64_t steps_together(std::int64_t all) const {
        return warps_ == 0 || kChunks % warps_ == 0 ? std::max<std::int64_t>(all, 1) : 1;
    }

    /// Adds the lanes' sums over steps from `step` on. Of a panel, a chunk of 32 k is four lanes, and chunk c of a row
    /// belongs to warp c % warps; a warp's lanes add in order.
    template <class T>
    void add(T* lanes, std::int64_t step, T* shares) const {
        if (warps_ == 0) {
            *shares += butterfly_sum(lanes);
            return;
        }
        for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
            T& share = shares[(step * kChunks + chunk) % warps_];
            for (std::int64_t lane = chunk * 4; lane < chunk * 4 + 4; ++lane) share += lanes[lane];
        }
    }

    /// The shares of all warps in order.
    template <class T>
    [[nodiscard]] T total(const T* shares) const {
        return std::accumulate(shares + 1, shares + this->shares(), shares[0]);
    }

private:
    static constexpr std::int64_t kChunks = kWarp / 4;  ///< of a step
    std::int64_t warps_;
};

/// out[m * out_stride + n] = sum over k of left(m, k) * row n (k): lane l adds products of k = step * 256 + l * 8 + j
/// in ascending order with fma, and `lane_sum` adds the lanes.
/// `left` holds `left_rows` packed rows, one after the other. Rows hold `depth` elements of `type`.
void dot_rows(const float* left, std::int64_t left_rows, const std::byte* const* rows, std::int64_t row_count,
              DType type, std::int64_t depth, LaneSum lane_sum, float* out, std::int64_t out_stride);
void dot_rows(const double* left, std::int64_t left_rows, const std::byte* const* rows,
              std::int64_t row_count, DType type, std::int64_t depth, LaneSum lane_sum, double* out,
              std::int64_t out_stride);

/// sums[i] = fma(scale, values[i], sums[i]).
void add_scaled(float scale, const float* values, float* sums, std::int64_t count);
void add_scaled(double scale, const double* values, double* sums, std::int64_t count);

/// sums[i] = fma(a[i], b[i], sums[i]).
void add_products(const float* a, const float* b, float* sums, std::int64_t count);

}  // namespace stretto
