#include <algorithm>
#include <limits>
#include <optional>

#include "backends/reference/blocks.h"
#include "backends/reference/compiled_store.h"
#include "backends/reference/twin.h"
#include "backends/reference/warp.h"
#include "fuse/reduce_lanes.h"

namespace stretto {
namespace {

template <class T>
T identity(ReduceOp op) {
    if (op == ReduceOp::Sum) return T{0};
    if constexpr (std::is_floating_point_v<T>) {
        return op == ReduceOp::Max ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
    } else {
        return op == ReduceOp::Max ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    }
}

template <class T>
T combined(ReduceOp op, T a, T b) {
    if (op == ReduceOp::Max) return a > b || a != a ? a : b;
    if (op == ReduceOp::Min) return a < b || a != a ? a : b;
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
        return a + b;
    }
}

Expr loaded(const Access& access) {
    Expr expr;
    expr.load(access);
    return expr;
}

/// The order of fuse/reduce_lanes.h; terms are counted from the first that counts.
class ReduceTwin final : public Twin {
public:
    ReduceTwin(const ReduceRegion& region, std::int32_t consumer_warps)
        : op_(region.op),
          lanes_(reduce_lanes(region)),
          shares_(lanes_.way == ReduceLanes::Way::Columns
                      ? consumer_warps * static_cast<std::int32_t>(lanes_.vector)
                  : lanes_.way == ReduceLanes::Way::Own ? kReduceSums
                                                        : kWarp),
          neighbours_(lanes_.way == ReduceLanes::Way::Along ? lanes_.vector : 1),
          space_(region.space),
          kept_(region.space.begin(), region.space.begin() + region.kept),
          reduced_(region.space.begin() + region.kept, region.space.end()),
          count_(volume(reduced_)),
          term_(region.term),
          stores_(compiled(region.stores)) {
        if (!region.ragged) return;
        begin_.emplace(loaded(region.ragged->begin));
        end_.emplace(loaded(region.ragged->end));
    }

    void run(const Task& task, Buffers buffers, Workspace& workspace) const override {
        switch (term_.domain()) {
            case Domain::F32:
                return run_as<float>(task, buffers, workspace);
            case Domain::F64:
                return run_as<double>(task, buffers, workspace);
            case Domain::I64:
                return run_as<std::int64_t>(task, buffers, workspace);
        }
    }

private:
    template <class T>
    void run_as(const Task& task, Buffers buffers, Workspace& workspace) const {
        std::array<T, kLanes> results;
        for (Range left = task.tile[0]; !left.empty();) {
            const Range part{left.begin, std::min<std::int64_t>(left.end, left.begin + kLanes)};
            if (lanes_.way == ReduceLanes::Way::Columns || (count_ < part.size() && !begin_)) {
                across_outputs(part, results.data(), buffers, workspace);
            } else {
                for (std::int64_t i = part.begin; i < part.end; ++i) {
                    results[i - part.begin] = one_output<T>(i, buffers, workspace);
                }
            }
            store(part, results.data(), buffers, workspace);
            left.begin = part.end;
        }
    }

    template <class T>
    void store(Range part, const T* results, Buffers buffers, Workspace& workspace) const {
        for (BlockWalk walk(kept_, part, space_.size(), workspace); !walk.done();) {
            const void* accumulator = results + (walk.position() - part.begin);
            Block block = walk.next();
            block.accumulators = {&accumulator, 1};
            block.accumulator_domain = term_.domain();
            for (const CompiledStore& store : stores_) store.run(block, buffers, workspace);
        }
    }

    template <class T>
    T one_output(std::int64_t output, Buffers buffers, Workspace& workspace) const {
        std::array<T, kWarp> lanes;
        lanes.fill(identity<T>(op_));
        const Range terms = terms_of(output, buffers, workspace);
        for (BlockWalk walk(space_, terms, space_.size(), workspace); !walk.done();) {
            const std::int64_t j = walk.position() - terms.begin;
            const Block block = walk.next();
            const auto* values = static_cast<const T*>(term_.run(block, buffers, workspace));
            for (std::int32_t i = 0; i < block.lanes; ++i) {
                T& lane = lanes[(j + i) / neighbours_ % shares_];
                lane = combined(op_, lane, values[i]);
            }
        }
        return butterfly(
            lanes.data(), [this](T a, T b) { return combined(op_, a, b); }, shares_);
    }

    /// The positions of an output's terms in the whole space.
    Range terms_of(std::int64_t output, Buffers buffers, Workspace& workspace) const {
        const std::int64_t first = output * count_;
        if (!begin_) return {first, first + count_};
        const std::int64_t extent = reduced_.front(), inner = count_ / std::max<std::int64_t>(extent, 1);
        BlockWalk walk(space_, {first, first + 1}, space_.size(), workspace);
        const Block block = walk.next();
        const auto bound = [&](const CompiledExpr& expr) {
            const double at = expr.scalar(block, buffers, workspace);
            return first +
                   static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(extent))) * inner;
        };
        return {bound(*begin_), bound(*end_)};
    }

    /// With outputs instead of terms side by side: also quicker where there are few terms along.
    template <class T>
    void across_outputs(Range outputs, T* results, Buffers buffers, Workspace& workspace) const {
        T* lanes = workspace.scratch<T>(Scratch::Lanes, shares_ * kLanes);
        const auto combine = [this](T a, T b) { return combined(op_, a, b); };
        const bool in_order = lanes_.way == ReduceLanes::Way::Columns;
        for (BlockWalk walk(kept_, outputs, space_.size(), workspace); !walk.done();) {
            T* out = results + (walk.position() - outputs.begin);
            const Block block = walk.next();
            std::fill_n(lanes, shares_ * kLanes, identity<T>(op_));
            for (std::int64_t j = 0; j < count_; ++j) {
                std::int64_t rest = j;
                for (std::size_t d = space_.size(); d-- > kept_.size();) {
                    walk.set(d, rest % space_[d]);
                    rest /= space_[d];
                }
                const auto* values = static_cast<const T*>(term_.run(block, buffers, workspace));
                T* lane = lanes + j / neighbours_ % shares_ * kLanes;
                for (std::int32_t i = 0; i < block.lanes; ++i) lane[i] = combine(lane[i], values[i]);
            }
            for (std::int32_t i = 0; i < block.lanes; ++i) {
                if (in_order) {
                    out[i] = lanes[i];
                    for (std::int64_t s = 1; s < shares_; ++s)
                        out[i] = combine(out[i], lanes[s * kLanes + i]);
                } else {
                    std::array<T, kWarp> of_output;
                    for (std::int32_t l = 0; l < shares_; ++l) of_output[l] = lanes[l * kLanes + i];
                    out[i] = butterfly(of_output.data(), combine, shares_);
                }
            }
        }
    }

    ReduceOp op_;
    ReduceLanes lanes_;
    std::int32_t shares_;      ///< of the terms of one output
    std::int64_t neighbours_;  ///< terms that a share takes together
    Shape space_;
    Shape kept_;
    Shape reduced_;
    std::int64_t count_;
    CompiledExpr term_;
    std::optional<CompiledExpr> begin_;  ///< where the reduction is ragged
    std::optional<CompiledExpr> end_;
    std::vector<CompiledStore> stores_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const ReduceRegion& region, std::int32_t consumer_warps) {
    return std::make_unique<ReduceTwin>(region, consumer_warps);
}

}  // namespace stretto
