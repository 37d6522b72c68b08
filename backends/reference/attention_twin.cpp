#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/reference/compiled_expr.h"
#include "backends/reference/convert.h"
#include "backends/reference/dot.h"
#include "backends/reference/twin.h"
#include "backends/reference/warp.h"

namespace stretto {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

/// Online softmax of one query row over the context rows of one warp: `sums` holds width values of sum(exp(score -
/// max) * value).
struct SoftmaxState {
    float max = kNoScore;
    float weight = 0;
    float* sums = nullptr;

    void add(float score, const float* value, std::int64_t width) {
        if (score > max) {
            const float scale = std::exp(max - score);
            weight *= scale;
            for (std::int64_t d = 0; d < width; ++d) sums[d] *= scale;
            max = score;
        }
        const float p = std::exp(score - max);
        weight += p;
        add_scaled(p, value, sums, width);
    }
};

class AttentionTwin final : public Twin {
public:
    AttentionTwin(const AttentionRegion& region, std::int32_t consumer_warps)
        : context_(region.space[3]),
          width_(region.space[4]),
          per_lane_((width_ + kWarp - 1) / kWarp),
          warps_(consumer_warps),
          group_(region.group),
          splits_(region.splits),
          split_stride_(region.space[0] * region.space[1] * region.space[2] * (width_ + 2)),
          scale_(static_cast<float>(region.scale)),
          query_(region.query),
          key_(region.key),
          value_(region.value),
          partial_(region.partial) {
        if (!region.mask.empty()) mask_.emplace(region.mask);
        if (!region.length.empty()) length_.emplace(region.length);
    }

    void run(const Task& task, Buffers buffers, Workspace& workspace) const override {
        const auto& [batches, heads, queries, splits] = task.tile;
        for (std::int64_t b = batches.begin; b < batches.end; ++b) {
            for (std::int64_t head = heads.begin; head < heads.end; ++head) {
                for (std::int64_t split = splits.begin; split < splits.end; ++split) {
                    Tile(*this, b, head, queries, buffers, workspace).run(split);
                }
            }
        }
    }

private:
    /// One key head of one batch entry with the query rows that share it.
    class Tile {
    public:
        Tile(const AttentionTwin& twin, std::int64_t b, std::int64_t head, Range queries, Buffers buffers,
             Workspace& workspace)
            : twin_(twin), b_(b), head_(head), queries_(queries), buffers_(buffers), workspace_(workspace) {}

        void run(std::int64_t split) {
            load_queries();
            const std::int64_t states = twin_.warps_ * rows();
            sums_ = workspace_.scratch<float>(Scratch::Accumulators, states * twin_.width_);
            std::fill_n(sums_, states * twin_.width_, 0.0F);
            for (std::int64_t i = 0; i < states; ++i)
                states_.push_back({kNoScore, 0, sums_ + i * twin_.width_});
            const std::int64_t end = context_end();
            const std::int64_t step = kAttentionBlock * twin_.splits_;
            for (std::int64_t s = split * kAttentionBlock; s < end; s += step) {
                block(s, std::min(end, s + kAttentionBlock));
            }
            for (std::int64_t row = 0; row < rows(); ++row) write(split, row);
        }

    private:
        [[nodiscard]] std::int64_t rows() const { return twin_.group_ * queries_.size(); }
        [[nodiscard]] std::int64_t head_of(std::int64_t row) const {
            return head_ * twin_.group_ + row / queries_.size();
        }
        [[nodiscard]] std::int64_t query_of(std::int64_t row) const {
            return queries_.begin + row % queries_.size();
        }
        [[nodiscard]] std::int64_t packed_width() const { return twin_.per_lane_ * kWarp; }

        [[nodiscard]] std::int64_t context_end() {
            if (!twin_.length_) return twin_.context_;
            const std::array<std::int64_t, 5> at{b_, 0, 0, 0, 0};
            Block block;
            block.lanes = 1;
            block.at = at;
            const double length = twin_.length_->scalar(block, buffers_, workspace_);
            return std::clamp<std::int64_t>(truncated(length), 0, twin_.context_);
        }

        /// Calls `use(block, d)` for blocks of lanes along d, at {b, h, q, s}.
        template <class Use>
        void along_width(std::int64_t h, std::int64_t q, std::int64_t s, Use&& use) const {
            for (std::int64_t d = 0; d < twin_.width_; d += kLanes) {
                const std::array<std::int64_t, 5> at{b_, h, q, s, d};
                Block block;
                block.lanes = static_cast<std::int32_t>(std::min<std::int64_t>(kLanes, twin_.width_ - d));
                block.at = at;
                block.dim = 4;
                use(block, d);
            }
        }

        /// Lane l takes elements l * per_lane ...; all lanes' first elements come first.
        void pack(const float* row, float* packed) const {
            for (std::int64_t v = 0; v < twin_.per_lane_; ++v) {
                for (std::int64_t lane = 0; lane < kWarp; ++lane) {
                    const std::int64_t d = lane * twin_.per_lane_ + v;
                    packed[v * kWarp + lane] = d < twin_.width_ ? row[d] : 0.0F;
                }
            }
        }

        void load_queries() {
            query_ = workspace_.scratch<float>(Scratch::Left, rows() * packed_width());
            std::vector<float> values(static_cast<std::size_t>(twin_.width_));
            for (std::int64_t row = 0; row < rows(); ++row) {
                along_width(head_of(row), query_of(row), 0, [&](const Block& block, std::int64_t d) {
                    convert_lanes(twin_.query_.run(block, buffers_, workspace_), twin_.query_.domain(),
                                  values.data() + d, Domain::F32, block.lanes);
                });
                pack(values.data(), query_ + row * packed_width());
            }
        }

        void read_row(const CompiledAccess& access, std::int64_t s, float* out) {
            along_width(head_ * twin_.group_, queries_.begin, s, [&](const Block& block, std::int64_t d) {
                access.read(block, {}, buffers_, workspace_, out + d, Domain::F32);
            });
        }

        /// What the mask adds to the scores of one query row at s, s + 1, ...: -inf where it does not attend.
        void read_mask(std::int64_t row, std::int64_t s, std::int64_t count, float* out) {
            std::fill_n(out, count, 0.0F);
            if (!twin_.mask_) return;
            const CompiledExpr& mask = *twin_.mask_;
            const std::array<std::int64_t, 5> at{b_, head_of(row), query_of(row), s, 0};
            Block block;
            block.lanes = static_cast<std::int32_t>(count);
            block.at = at;
            block.dim = 3;
            convert_lanes(mask.run(block, buffers_, workspace_), mask.domain(), out, Domain::F32, count);
            if (mask.type() != DType::Bool) return;
            for (std::int64_t i = 0; i < count; ++i) out[i] = out[i] != 0 ? 0.0F : kNoScore;
        }

        void block(std::int64_t begin, std::int64_t end) {
            float* bias = workspace_.scratch<float>(Scratch::Partials, rows() * kAttentionBlock);
            for (std::int64_t row = 0; row < rows(); ++row) {
                read_mask(row, begin, end - begin, bias + row * kAttentionBlock);
            }
            float* value = workspace_.scratch<float>(Scratch::Rows, twin_.width_);
            float* key = workspace_.scratch<float>(Scratch::Lanes, twin_.width_);
            float* packed = workspace_.scratch<float>(Scratch::Packed, packed_width());
            for (std::int64_t s = begin; s < end; ++s) {
                read_row(twin_.key_, s, key);
                read_row(twin_.value_, s, value);
                pack(key, packed);
                const std::int64_t warp = s % kAttentionBlock % twin_.warps_;
                for (std::int64_t row = 0; row < rows(); ++row) {
                    const float added = bias[row * kAttentionBlock + s - begin];
                    if (added == kNoScore) continue;
                    alignas(64) float lanes[kWarp] = {};
                    for (std::int64_t v = 0; v < twin_.per_lane_; ++v) {
                        add_products(query_ + row * packed_width() + v * kWarp, packed + v * kWarp, lanes,
                                     kWarp);
                    }
                    states_[warp * rows() + row].add(butterfly_sum(lanes) * twin_.scale_ + added, value,
                                                     twin_.width_);
                }
            }
        }

        /// Adds the warps in order and writes one row of partial results.
        void write(std::int64_t split, std::int64_t row) {
            std::vector<float> out(static_cast<std::size_t>(twin_.width_ + 2), 0.0F);
            float max = kNoScore;
            for (std::int64_t warp = 0; warp < twin_.warps_; ++warp) {
                max = std::max(max, states_[warp * rows() + row].max);
            }
            for (std::int64_t warp = 0; warp < twin_.warps_; ++warp) {
                const SoftmaxState& state = states_[warp * rows() + row];
                if (state.max == kNoScore) continue;
                const float scale = std::exp(state.max - max);
                for (std::int64_t d = 0; d < twin_.width_; ++d) out[d] += state.sums[d] * scale;
                out[twin_.width_ + 1] += state.weight * scale;
            }
            out[twin_.width_] = max;
            const std::array<std::int64_t, 5> at{b_, head_of(row), query_of(row), 0, 0};
            const std::int64_t first = split * twin_.split_stride_ + twin_.partial_.at(at);
            twin_.partial_.write_row(first, twin_.width_ + 2, buffers_, workspace_, out.data(), Domain::F32);
        }

        const AttentionTwin& twin_;
        std::int64_t b_;
        std::int64_t head_;
        Range queries_;
        Buffers buffers_;
        Workspace& workspace_;
        float* query_ = nullptr;  ///< packed query rows
        float* sums_ = nullptr;
        std::vector<SoftmaxState> states_;  ///< [warp][query row]
    };

    std::int64_t context_;
    std::int64_t width_;
    std::int64_t per_lane_;
    std::int64_t warps_;
    std::int64_t group_;
    std::int64_t splits_;
    std::int64_t split_stride_;  ///< elements of the partial results of one split
    float scale_;
    CompiledExpr query_;
    CompiledAccess key_;
    CompiledAccess value_;
    CompiledAccess partial_;
    std::optional<CompiledExpr> mask_;
    std::optional<CompiledExpr> length_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const AttentionRegion& region, std::int32_t consumer_warps) {
    return std::make_unique<AttentionTwin>(region, consumer_warps);
}

}  // namespace stretto
