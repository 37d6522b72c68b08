#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/abi.h"
#include "backends/reference/blocks.h"
#include "backends/reference/compiled_store.h"
#include "backends/reference/convert.h"
#include "backends/reference/dot.h"
#include "backends/reference/twin.h"
#include "backends/reference/warp.h"

namespace stretto {
namespace {

constexpr std::int64_t kBlock = abi::kScoredBlock;
constexpr std::int64_t kQuad = 4;  ///< lanes that share a row of scores

float start_of(ReduceOp op) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return op == ReduceOp::Sum ? 0 : op == ReduceOp::Max ? -kInfinity : kInfinity;
}

float combined(ReduceOp op, float a, float b) {
    if (op == ReduceOp::Sum) return a + b;
    const bool first = op == ReduceOp::Max ? a > b : a < b;
    return first || a != a ? a : b;
}

/// What a row's exponents are shifted by; where all are -inf by nothing.
float shift_of(float maximum) { return maximum == -std::numeric_limits<float>::infinity() ? 0 : maximum; }

/// Blocks of positions belong to the warps that share rows in turn; each adds its own in ascending order, and their sums are
/// added in order. Reductions have one sum for each lane of a quad, which holds two of eight neighbouring positions. Inside one
/// mma the device has an order of its own.
class ScoredTwin final : public Twin {
public:
    explicit ScoredTwin(const ScoredRegion& region)
        : region_(region),
          across_(region.tile.columns / kBlock),
          stores_(compiled(region.stores)),
          row_stores_(compiled(region.row_stores)) {
        for (const Score& score : region.scores) {
            left_.emplace_back(score.left);
            right_.emplace_back(score.right);
        }
        for (const ScoredSum& sum : region.sums) {
            weights_.emplace_back(sum.weight);
            if (sum.factor) factors_.emplace_back(*sum.factor);
        }
    }

    void run(const Task& task, Buffers buffers, Workspace& workspace) const override {
        for (std::int64_t b = task.tile[0].begin; b < task.tile[0].end; ++b)
            Tile(*this, b, task.tile[1], buffers, workspace).run();
    }

private:
    /// The rows of one task in one batch entry.
    class Tile {
    public:
        Tile(const ScoredTwin& twin, std::int64_t b, Range rows, Buffers buffers, Workspace& workspace)
            : twin_(twin),
              b_(b),
              rows_(rows),
              depth_(twin.region_.space[4]),
              width_(twin.factors_.empty() ? kQuad : twin.region_.space[2]),
              count_(static_cast<std::int64_t>(twin.weights_.size()) * width_),
              buffers_(buffers),
              workspace_(workspace) {}

        void run() {
            const auto scores = static_cast<std::int64_t>(twin_.left_.size());
            left_ = workspace_.scratch<float>(Scratch::Left, scores * rows_.size() * depth_);
            right_ = workspace_.scratch<float>(Scratch::Rows, scores * depth_ * kBlock);
            factors_ = workspace_.scratch<float>(Scratch::Packed, kBlock * count_);
            sums_ = workspace_.scratch<float>(Scratch::Accumulators, twin_.across_ * rows_.size() * count_);
            std::fill_n(sums_, twin_.across_ * rows_.size() * count_, start_of(twin_.region_.op));
            statistics_.assign(static_cast<std::size_t>(twin_.across_ * rows_.size()), {});
            read_left();
            const Range context = scored_context(twin_.region_, rows_);
            std::int64_t number = 0;
            for (std::int64_t c = context.begin; c < context.end; c += kBlock, ++number) {
                const Range block{c, std::min(c + kBlock, context.end)};
                read_block(block);
                for (std::int64_t row = 0; row < rows_.size(); ++row)
                    add_row(row, block, number % twin_.across_);
            }
            for (std::int64_t row = 0; row < rows_.size(); ++row) store(row);
        }

    private:
        [[nodiscard]] float* sums_of(std::int64_t part, std::int64_t row) const {
            return sums_ + (part * rows_.size() + row) * count_;
        }

        void read(const CompiledAccess& access, const std::array<std::int64_t, 5>& at, std::int32_t dim,
                  std::int64_t lanes, float* out) const {
            Block block;
            block.lanes = static_cast<std::int32_t>(lanes);
            block.at = at;
            block.dim = dim;
            access.read(block, {}, buffers_, workspace_, out, Domain::F32);
        }

        void read_left() const {
            float* out = left_;
            for (const CompiledAccess& left : twin_.left_) {
                for (std::int64_t r = rows_.begin; r < rows_.end; ++r, out += depth_)
                    read(left, {b_, r, 0, 0, 0}, 4, depth_, out);
            }
        }

        void read_block(Range block) const {
            float* out = right_;
            for (const CompiledAccess& right : twin_.right_) {
                for (std::int64_t e = 0; e < depth_; ++e, out += kBlock)
                    read(right, {b_, 0, 0, block.begin, e}, 3, block.size(), out);
            }
            out = factors_;
            for (const CompiledAccess& factor : twin_.factors_) {
                for (std::int64_t c = block.begin; c < block.end; ++c)
                    read(factor, {b_, 0, 0, c, 0}, 2, width_, out + (c - block.begin) * width_);
                out += kBlock * width_;
            }
        }

        void add_row(std::int64_t row, Range block, std::int64_t part) {
            float* weights = weights_of(row, block);
            float* sums = sums_of(part, row);
            if (twin_.region_.softmax)
                take_exponentials(weights, block.size(), sums, statistics_of(part, row));
            if (twin_.factors_.empty()) {
                for (std::int64_t i = 0; i < block.size(); ++i) {
                    float& sum = sums[i % 8 / 2];
                    sum = combined(twin_.region_.op, sum, weights[i]);
                }
            }
            const float* factors = factors_;
            for (const CompiledAccess& factor : twin_.factors_) {
                for (std::int64_t i = 0; i < block.size(); ++i)
                    add_scaled(rounded_lane(weights[i], factor.type()), factors + i * width_, sums, width_);
                weights += kBlock;
                factors += kBlock * width_;
                sums += width_;
            }
        }

        /// Of the softmax of a row, as far as one part has come. The total is kept by the lanes of a quad.
        struct Statistics {
            float maximum = -std::numeric_limits<float>::infinity();
            std::array<float, kQuad> total{};
        };
        [[nodiscard]] Statistics& statistics_of(std::int64_t part, std::int64_t row) {
            return statistics_[static_cast<std::size_t>(part * rows_.size() + row)];
        }

        /// Turns x into exp(x - the largest so far), and what was added before into terms of the same maximum.
        void take_exponentials(float* weights, std::int64_t count, float* sums,
                               Statistics& statistics) const {
            const float maximum = std::max(statistics.maximum, *std::max_element(weights, weights + count));
            const float shift = shift_of(maximum);
            const float keep = std::exp(statistics.maximum - shift);
            statistics.maximum = maximum;
            for (float& total : statistics.total) total *= keep;
            for (std::int64_t n = 0; n < width_; ++n) sums[n] *= keep;
            for (std::int64_t i = 0; i < count; ++i) {
                weights[i] = std::exp(weights[i] - shift);
                statistics.total[static_cast<std::size_t>(i % 8 / 2)] += weights[i];
            }
        }

        /// The quotients of all parts' sums, in the first of them, and the row's statistics.
        std::array<float, 2> merge_softmax(std::int64_t row) {
            float maximum = statistics_of(0, row).maximum;
            for (std::int64_t part = 1; part < twin_.across_; ++part)
                maximum = std::max(maximum, statistics_of(part, row).maximum);
            float total = 0;
            float* merged = sums_of(0, row);
            for (std::int64_t part = 0; part < twin_.across_; ++part) {
                Statistics& statistics = statistics_of(part, row);
                const float scale = std::exp(statistics.maximum - shift_of(maximum));
                const auto add = [](float a, float b) { return a + b; };
                total += scale * butterfly(statistics.total.data(), add, kQuad);
                for (std::int64_t n = 0; n < width_; ++n)
                    merged[n] = (part == 0 ? 0 : merged[n]) + scale * sums_of(part, row)[n];
            }
            for (std::int64_t n = 0; n < width_; ++n) merged[n] /= total;
            return {maximum, total};
        }

        /// By sum and position, kBlock apart.
        float* weights_of(std::int64_t row, Range block) const {
            const std::size_t count = twin_.left_.size();
            float* scores =
                workspace_.scratch<float>(Scratch::Partials, (count + twin_.weights_.size()) * kBlock);
            std::fill_n(scores, count * kBlock, 0.0F);
            std::vector<const void*> accumulators;
            for (std::size_t j = 0; j < count; ++j) {
                const float* left = left_ + (static_cast<std::int64_t>(j) * rows_.size() + row) * depth_;
                for (std::int64_t e = 0; e < depth_; ++e) {
                    add_scaled(left[e], right_ + (static_cast<std::int64_t>(j) * depth_ + e) * kBlock,
                               scores + j * kBlock, block.size());
                }
                accumulators.push_back(scores + j * kBlock);
            }
            const std::array<std::int64_t, 5> at{b_, rows_.begin + row, 0, block.begin, 0};
            Block lanes;
            lanes.lanes = static_cast<std::int32_t>(block.size());
            lanes.at = at;
            lanes.dim = 3;
            lanes.accumulators = accumulators;
            float* weights = scores + count * kBlock;
            float* out = weights;
            for (const CompiledExpr& weight : twin_.weights_) {
                const void* values = weight.run(lanes, buffers_, workspace_);
                std::copy_n(static_cast<const float*>(values), block.size(), out);
                out += kBlock;
            }
            return weights;
        }

        void store(std::int64_t row) {
            std::array<float, 2> statistics{};
            if (twin_.region_.softmax) {
                statistics = merge_softmax(row);
            } else {
                add_parts(row);
            }
            const std::array<std::int64_t, 5> at{b_, rows_.begin + row, 0, 0, 0};
            std::vector<const void*> accumulators;
            for (std::int64_t first = 0; first < count_; first += width_)
                accumulators.push_back(sums_of(0, row) + first);
            Block block;
            block.lanes = static_cast<std::int32_t>(twin_.region_.space[2]);
            block.at = at;
            block.dim = 2;
            block.accumulators = accumulators;
            for (const CompiledStore& store : twin_.stores_) store.run(block, buffers_, workspace_);
            const std::array<const void*, 2> row_accumulators{&statistics[0], &statistics[1]};
            block.lanes = 1;
            block.accumulators = row_accumulators;
            for (const CompiledStore& store : twin_.row_stores_) store.run(block, buffers_, workspace_);
        }

        void add_parts(std::int64_t row) const {
            const ReduceOp op = twin_.region_.op;
            const auto combine = [op](float a, float b) { return combined(op, a, b); };
            for (std::int64_t part = 0; part < twin_.across_; ++part) {
                float* sums = sums_of(part, row);
                if (twin_.factors_.empty()) butterfly(sums, combine, kQuad);
                if (part == 0) continue;
                for (std::int64_t i = 0; i < count_; ++i)
                    sums_of(0, row)[i] = combine(sums_of(0, row)[i], sums[i]);
            }
        }

        const ScoredTwin& twin_;
        std::int64_t b_;
        Range rows_;
        std::int64_t depth_;
        std::int64_t width_;  ///< of one sum
        std::int64_t count_;  ///< sums of one row and part
        Buffers buffers_;
        Workspace& workspace_;
        float* left_ = nullptr;               ///< [score][row][e]
        float* right_ = nullptr;              ///< [score][e][position of the block]
        float* factors_ = nullptr;            ///< [sum][position of the block][n]
        float* sums_ = nullptr;               ///< [part][row][sum][n or lane of a quad]
        std::vector<Statistics> statistics_;  ///< [part][row]
    };

    const ScoredRegion& region_;
    std::int64_t across_;  ///< warps that share rows
    std::vector<CompiledAccess> left_;
    std::vector<CompiledAccess> right_;
    std::vector<CompiledExpr> weights_;
    std::vector<CompiledAccess> factors_;  ///< of all sums, or of none
    std::vector<CompiledStore> stores_;
    std::vector<CompiledStore> row_stores_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const ScoredRegion& region) { return std::make_unique<ScoredTwin>(region); }

}  // namespace stretto
