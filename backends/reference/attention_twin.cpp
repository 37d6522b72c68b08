#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "abi/abi.h"
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
    float weights[4] = {};  ///< on tensor cores, of the four lanes that share a row; else all in the first
    float* sums = nullptr;

    [[nodiscard]] float weight() const { return (weights[0] + weights[1]) + (weights[2] + weights[3]); }

    void add(float score, const float* value, std::int64_t width) {
        if (score > max) {
            const float scale = std::exp(max - score);
            weights[0] *= scale;
            for (std::int64_t d = 0; d < width; ++d) sums[d] *= scale;
            max = score;
        }
        const float p = std::exp(score - max);
        weights[0] += p;
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
          on_tensor_cores_(on_tensor_cores(region)),
          splits_(region.splits),
          split_stride_(region.space[0] * region.space[1] * region.space[2] * (width_ + 2)),
          scale_(static_cast<float>(region.scale)),
          query_(region.query),
          key_(region.key),
          value_(region.value),
          out_(region.out) {
        if (!region.fresh.row.empty()) fresh_row_.emplace(region.fresh.row);
        if (!region.fresh.key.empty()) fresh_key_.emplace(region.fresh.key);
        if (!region.fresh.value.empty()) fresh_value_.emplace(region.fresh.value);
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
            fresh_row_ = find_fresh_row();
            const std::int64_t states = twin_.warps_ * rows();
            sums_ = workspace_.scratch<float>(Scratch::Accumulators, states * twin_.width_);
            std::fill_n(sums_, states * twin_.width_, 0.0F);
            for (std::int64_t i = 0; i < states; ++i)
                states_.push_back({kNoScore, {}, sums_ + i * twin_.width_});
            const std::int64_t end = context_end();
            for (std::int64_t number = 0;; ++number) {
                const std::int64_t s = abi::attention_strip_begin(number, split, twin_.splits_);
                if (s >= end) break;
                const std::int64_t last = std::min(end, s + abi::kAttentionStrip);
                read_masks(s, last);
                if (twin_.on_tensor_cores_) {
                    multiply_strip(number % twin_.warps_, s, last);
                } else {
                    add_strip(number % twin_.warps_, s, last);
                }
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
            return std::clamp<std::int64_t>(row_scalar(*twin_.length_), 0, twin_.context_);
        }

        /// The context row that is taken from the fresh expressions; -1 where there is none.
        [[nodiscard]] std::int64_t find_fresh_row() {
            if (!twin_.fresh_row_) return -1;
            const std::int64_t row = row_scalar(*twin_.fresh_row_);
            return std::clamp<std::int64_t>(row < 0 ? row + twin_.context_ : row, 0, twin_.context_ - 1);
        }

        /// An integer expression that varies with b only.
        [[nodiscard]] std::int64_t row_scalar(const CompiledExpr& expr) {
            const std::array<std::int64_t, 5> at{b_, 0, 0, 0, 0};
            Block block;
            block.lanes = 1;
            block.at = at;
            return truncated(expr.scalar(block, buffers_, workspace_));
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

        /// Packed rows, or on tensor cores the high parts of a row and then what they leave.
        void load_queries() {
            const DType type = twin_.key_.type();
            query_ =
                workspace_.scratch<float>(Scratch::Left, rows() * std::max(packed_width(), 2 * twin_.width_));
            std::vector<float> values(static_cast<std::size_t>(twin_.width_));
            for (std::int64_t row = 0; row < rows(); ++row) {
                evaluate(twin_.query_, head_of(row), query_of(row), values.data());
                if (!twin_.on_tensor_cores_) {
                    pack(values.data(), query_ + row * packed_width());
                    continue;
                }
                float* high = query_ + row * 2 * twin_.width_;
                for (std::int64_t d = 0; d < twin_.width_; ++d) {
                    high[d] = rounded_lane(values[d], type);
                    high[twin_.width_ + d] = rounded_lane(values[d] - high[d], type);
                }
            }
        }

        void evaluate(const CompiledExpr& expr, std::int64_t h, std::int64_t q, float* out) {
            along_width(h, q, 0, [&](const Block& block, std::int64_t d) {
                convert_lanes(expr.run(block, buffers_, workspace_), expr.domain(), out + d, Domain::F32,
                              block.lanes);
            });
        }

        /// One row of keys or values: from the buffer, or from `fresh`.
        void read_row(const CompiledAccess& access, const std::optional<CompiledExpr>& fresh, std::int64_t s,
                      float* out) {
            if (fresh && s == fresh_row_) {
                evaluate(*fresh, head_ * twin_.group_, queries_.begin, out);
                for (std::int64_t d = 0; d < twin_.width_; ++d) out[d] = rounded_lane(out[d], access.type());
                return;
            }
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

        void read_masks(std::int64_t begin, std::int64_t end) {
            bias_ = workspace_.scratch<float>(Scratch::Partials, rows() * abi::kAttentionStrip);
            for (std::int64_t row = 0; row < rows(); ++row) {
                read_mask(row, begin, end - begin, bias_ + row * abi::kAttentionStrip);
            }
        }

        /// One context row after the other, as lanes that sum their shares of a row by a butterfly.
        void add_strip(std::int64_t warp, std::int64_t begin, std::int64_t end) {
            float* value = workspace_.scratch<float>(Scratch::Rows, twin_.width_);
            float* key = workspace_.scratch<float>(Scratch::Lanes, twin_.width_);
            float* packed = workspace_.scratch<float>(Scratch::Packed, packed_width());
            for (std::int64_t s = begin; s < end; ++s) {
                read_row(twin_.key_, twin_.fresh_key_, s, key);
                read_row(twin_.value_, twin_.fresh_value_, s, value);
                pack(key, packed);
                for (std::int64_t row = 0; row < rows(); ++row) {
                    const float added = bias_[row * abi::kAttentionStrip + s - begin];
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

        /// A strip as one product with its keys and one with its values. Device and twin differ in the order of sums
        /// inside a product only.
        void multiply_strip(std::int64_t warp, std::int64_t begin, std::int64_t end) {
            const std::int64_t width = twin_.width_;
            const std::int64_t count = end - begin;
            float* keys = workspace_.scratch<float>(Scratch::Lanes, count * width);
            float* values = workspace_.scratch<float>(Scratch::Rows, count * width);
            for (std::int64_t i = 0; i < count; ++i) {
                read_row(twin_.key_, twin_.fresh_key_, begin + i, keys + i * width);
                read_row(twin_.value_, twin_.fresh_value_, begin + i, values + i * width);
            }
            for (std::int64_t row = 0; row < rows(); ++row) {
                SoftmaxState& state = states_[warp * rows() + row];
                float scores[abi::kAttentionStrip];
                std::fill(std::begin(scores), std::end(scores), kNoScore);
                float top = state.max;
                for (std::int64_t i = 0; i < count; ++i) {
                    const float added = bias_[row * abi::kAttentionStrip + i];
                    if (added == kNoScore) continue;
                    const float* query = query_ + row * 2 * width;
                    const float product = dot(query, keys + i * width) + dot(query + width, keys + i * width);
                    scores[i] = product * twin_.scale_ + added;
                    top = std::max(top, scores[i]);
                }
                const float zero = top == kNoScore ? 0 : top;
                const float keep = std::exp(state.max - zero);
                for (float& score : scores) score = std::exp(score - zero);
                state.max = top;
                for (std::int64_t lane = 0; lane < 4; ++lane) {
                    const float* of_lane = scores + 2 * lane;
                    state.weights[lane] = std::fma(state.weights[lane], keep,
                                                   (of_lane[0] + of_lane[1]) + (of_lane[8] + of_lane[9]));
                }
                for (std::int64_t d = 0; d < width; ++d) state.sums[d] *= keep;
                add_weighted(scores, values, count, state.sums);
            }
        }

        [[nodiscard]] float dot(const float* a, const float* b) const {
            float sum = 0;
            for (std::int64_t d = 0; d < twin_.width_; ++d) sum = std::fma(a[d], b[d], sum);
            return sum;
        }

        /// Adds weighted rows: with the high parts of the weights, then with what these leave.
        void add_weighted(const float* weights, const float* rows, std::int64_t count, float* sums) const {
            const DType type = twin_.key_.type();
            for (const bool low : {false, true}) {
                for (std::int64_t i = 0; i < count; ++i) {
                    const float high = rounded_lane(weights[i], type);
                    add_scaled(low ? rounded_lane(weights[i] - high, type) : high, rows + i * twin_.width_,
                               sums, twin_.width_);
                }
            }
        }

        /// Adds the warps in order and writes one row of results, or of partial results.
        void write(std::int64_t split, std::int64_t row) {
            std::vector<float> out(static_cast<std::size_t>(twin_.width_ + 2), 0.0F);
            float weight = 0;
            float max = kNoScore;
            for (std::int64_t warp = 0; warp < twin_.warps_; ++warp) {
                max = std::max(max, states_[warp * rows() + row].max);
            }
            for (std::int64_t warp = 0; warp < twin_.warps_; ++warp) {
                const SoftmaxState& state = states_[warp * rows() + row];
                if (state.max == kNoScore) continue;
                const float scale = std::exp(state.max - max);
                for (std::int64_t d = 0; d < twin_.width_; ++d) out[d] += state.sums[d] * scale;
                weight += state.weight() * scale;
            }
            const bool whole = twin_.splits_ == 1;
            if (whole || weight != 0) {
                for (std::int64_t d = 0; d < twin_.width_; ++d) out[d] /= weight;
            }
            out[twin_.width_] = max + std::log(weight);
            out[twin_.width_ + 1] = max;
            const std::array<std::int64_t, 5> at{b_, head_of(row), query_of(row), 0, 0};
            const std::int64_t first = split * twin_.split_stride_ + twin_.out_.at(at);
            twin_.out_.write_row(first, whole ? twin_.width_ : twin_.width_ + 2, buffers_, workspace_,
                                 out.data(), Domain::F32);
        }

        const AttentionTwin& twin_;
        std::int64_t b_;
        std::int64_t head_;
        Range queries_;
        Buffers buffers_;
        Workspace& workspace_;
        std::int64_t fresh_row_ = -1;
        float* query_ = nullptr;  ///< query rows as load_queries leaves them
        float* bias_ = nullptr;   ///< of one strip, by query row
        float* sums_ = nullptr;
        std::vector<SoftmaxState> states_;  ///< [warp][query row]
    };

    std::int64_t context_;
    std::int64_t width_;
    std::int64_t per_lane_;
    std::int64_t warps_;
    std::int64_t group_;
    bool on_tensor_cores_;
    std::int64_t splits_;
    std::int64_t split_stride_;  ///< elements of the partial results of one split
    float scale_;
    CompiledExpr query_;
    CompiledAccess key_;
    CompiledAccess value_;
    CompiledAccess out_;
    std::optional<CompiledExpr> fresh_row_;
    std::optional<CompiledExpr> fresh_key_;
    std::optional<CompiledExpr> fresh_value_;
    std::optional<CompiledExpr> mask_;
    std::optional<CompiledExpr> length_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const AttentionRegion& region, std::int32_t consumer_warps) {
    return std::make_unique<AttentionTwin>(region, consumer_warps);
}

}  // namespace stretto
