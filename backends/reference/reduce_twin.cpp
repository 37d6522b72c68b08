#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

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
        : lanes_(reduce_lanes(region)),
          shares_(shares_of(lanes_, consumer_warps)),
          neighbours_(takes_terms_together(lanes_.way) ? lanes_.vector : 1),
          space_(region.space),
          kept_(region.space.begin(), region.space.begin() + region.kept),
          reduced_(region.space.begin() + region.kept, region.space.end()),
          count_(volume(reduced_)),
          domain_(domain_of(region.reductions.front().term.type())),
          stores_(compiled(region.stores)),
          element_stores_(compiled(region.element_stores)) {
        for (const Reduction& reduction : region.reductions)
            reductions_.push_back({reduction.op, CompiledExpr(reduction.term)});
        if (!region.ragged) return;
        begin_.emplace(loaded(region.ragged->begin));
        end_.emplace(loaded(region.ragged->end));
    }

    void run(const Task& task, Buffers buffers, Workspace& workspace) const override {
        switch (domain_) {
            case Domain::F32:
                return run_as<float>(task, buffers, workspace);
            case Domain::F64:
                return run_as<double>(task, buffers, workspace);
            case Domain::I64:
                return run_as<std::int64_t>(task, buffers, workspace);
        }
    }

private:
    static std::int32_t shares_of(const ReduceLanes& lanes, std::int32_t warps) {
        switch (lanes.way) {
            case ReduceLanes::Way::Along:
                return kWarp;
            case ReduceLanes::Way::Together:
                return warps * kWarp;
            case ReduceLanes::Way::Own:
                return kReduceSums;
            case ReduceLanes::Way::Alone:
                return 1;
            case ReduceLanes::Way::Columns:
                return warps * static_cast<std::int32_t>(lanes.vector);
        }
        return 0;
    }

    static bool takes_terms_together(ReduceLanes::Way way) {
        return way != ReduceLanes::Way::Own && way != ReduceLanes::Way::Columns;
    }

    /// By reduction, of as many outputs as there are lanes.
    template <class T>
    using Results = std::vector<std::array<T, kLanes>>;

    struct Compiled {
        ReduceOp op;
        CompiledExpr term;
    };

    template <class T>
    void run_as(const Task& task, Buffers buffers, Workspace& workspace) const {
        Results<T> results(reductions_.size());
        for (Range left = task.tile[0]; !left.empty();) {
            const Range part{left.begin, std::min<std::int64_t>(left.end, left.begin + kLanes)};
            const bool across = lanes_.way == ReduceLanes::Way::Columns || (count_ < part.size() && !begin_);
            for (std::size_t j = 0; j < reductions_.size(); ++j) {
                if (across) {
                    across_outputs<T>(j, part, results, buffers, workspace);
                } else {
                    for (std::int64_t i = 0; i < part.size(); ++i)
                        results[j][i] = one_output<T>(j, part, i, results, buffers, workspace);
                }
            }
            store<T>(part, results, buffers, workspace);
            for (std::int64_t i = 0; i < part.size() && !element_stores_.empty(); ++i)
                store_elements<T>(part, i, results, buffers, workspace);
            left.begin = part.end;
        }
    }

    /// The results from `first` on, one for each lane of a block.
    template <class T>
    static std::vector<const void*> results_from(const Results<T>& results, std::int64_t first) {
        std::vector<const void*> accumulators;
        for (const auto& of_reduction : results) accumulators.push_back(of_reduction.data() + first);
        return accumulators;
    }

    template <class T>
    void store(Range part, const Results<T>& results, Buffers buffers, Workspace& workspace) const {
        for (BlockWalk walk(kept_, part, space_.size(), workspace); !walk.done();) {
            const auto accumulators = results_from(results, walk.position() - part.begin);
            Block block = walk.next();
            block.accumulators = accumulators;
            block.accumulator_domain = domain_;
            for (const CompiledStore& store : stores_) store.run(block, buffers, workspace);
        }
    }

    /// The first `count` results of output i, for every lane of a block.
    template <class T>
    static Results<T> in_all_lanes(const Results<T>& results, std::size_t count, std::int64_t i) {
        Results<T> own(count);
        for (std::size_t j = 0; j < count; ++j) own[j].fill(results[j][i]);
        return own;
    }

    template <class T>
    void store_elements(Range part, std::int64_t i, const Results<T>& results, Buffers buffers,
                        Workspace& workspace) const {
        const Results<T> own = in_all_lanes<T>(results, results.size(), i);
        const auto accumulators = results_from(own, 0);
        const std::int64_t first = (part.begin + i) * count_;
        for (BlockWalk walk(space_, {first, first + count_}, space_.size(), workspace); !walk.done();) {
            Block block = walk.next();
            block.accumulators = accumulators;
            block.accumulator_domain = domain_;
            for (const CompiledStore& store : element_stores_) store.run(block, buffers, workspace);
        }
    }

    /// Reduction j of output i of the part, which has the results of all reductions before.
    template <class T>
    T one_output(std::size_t j, Range part, std::int64_t i, const Results<T>& results, Buffers buffers,
                 Workspace& workspace) const {
        const auto& [op, term] = reductions_[j];
        const auto combine = [op = op](T a, T b) { return combined(op, a, b); };
        const Results<T> own = in_all_lanes<T>(results, j, i);
        const auto accumulators = results_from(own, 0);
        T* lanes = workspace.scratch<T>(Scratch::Lanes, shares_);
        std::fill_n(lanes, shares_, identity<T>(op));
        const Range terms = terms_of(part.begin + i, buffers, workspace);
        T* group = workspace.scratch<T>(Scratch::Group, neighbours_);
        for (BlockWalk walk(space_, terms, space_.size(), workspace); !walk.done();) {
            const std::int64_t first = walk.position() - terms.begin;
            Block block = walk.next();
            block.accumulators = accumulators;
            block.accumulator_domain = domain_;
            const auto* values = static_cast<const T*>(term.run(block, buffers, workspace));
            for (std::int32_t v = 0; v < block.lanes; ++v)
                take(first + v, terms.size(), {values + v, 1, 1}, group, lanes, combine);
        }
        const std::int32_t of_warp = std::min(shares_, kWarp);
        T total = butterfly(lanes, combine, of_warp);
        for (std::int32_t first = of_warp; first < shares_; first += of_warp)
            total = combine(total, butterfly(lanes + first, combine, of_warp));
        return total;
    }

    /// One term of each of some outputs, whose lanes lie side by side: those of the next lane `stride` further.
    template <class T>
    struct Terms {
        const T* values;
        std::int64_t outputs;
        std::int64_t stride;
    };

    /// Takes term k of `count` into its lane. Neighbours that make a whole group meet in pairs first, when the last one has come.
    template <class T, class Combine>
    void take(std::int64_t k, std::int64_t count, const Terms<T>& terms, T* group, T* lanes,
              const Combine& combine) const {
        const auto [values, outputs, stride] = terms;
        T* lane = lanes + k / neighbours_ % shares_ * stride;
        if (neighbours_ == 1 || k >= count - count % neighbours_) {
            for (std::int64_t i = 0; i < outputs; ++i) lane[i] = combine(lane[i], values[i]);
            return;
        }
        std::copy_n(values, outputs, group + k % neighbours_ * stride);
        if (k % neighbours_ + 1 < neighbours_) return;
        for (std::int64_t apart = 1; apart < neighbours_; apart *= 2) {
            for (std::int64_t v = 0; v < neighbours_; v += 2 * apart) {
                T* left = group + v * stride;
                for (std::int64_t i = 0; i < outputs; ++i)
                    left[i] = combine(left[i], left[apart * stride + i]);
            }
        }
        for (std::int64_t i = 0; i < outputs; ++i) lane[i] = combine(lane[i], group[i]);
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

    /// Reduction j with outputs instead of terms side by side: also quicker where there are few terms along.
    template <class T>
    void across_outputs(std::size_t j, Range outputs, Results<T>& results, Buffers buffers,
                        Workspace& workspace) const {
        const auto& [op, term] = reductions_[j];
        T* lanes = workspace.scratch<T>(Scratch::Lanes, shares_ * kLanes);
        T* group = workspace.scratch<T>(Scratch::Group, neighbours_ * kLanes);
        const auto combine = [op = op](T a, T b) { return combined(op, a, b); };
        const bool in_order = lanes_.way == ReduceLanes::Way::Columns;
        for (BlockWalk walk(kept_, outputs, space_.size(), workspace); !walk.done();) {
            const auto accumulators = results_from(results, walk.position() - outputs.begin);
            T* out = results[j].data() + (walk.position() - outputs.begin);
            Block block = walk.next();
            block.accumulators = accumulators;
            block.accumulator_domain = domain_;
            std::fill_n(lanes, shares_ * kLanes, identity<T>(op));
            for (std::int64_t k = 0; k < count_; ++k) {
                std::int64_t rest = k;
                for (std::size_t d = space_.size(); d-- > kept_.size();) {
                    walk.set(d, rest % space_[d]);
                    rest /= space_[d];
                }
                const auto* values = static_cast<const T*>(term.run(block, buffers, workspace));
                take(k, count_, {values, block.lanes, kLanes}, group, lanes, combine);
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

    ReduceLanes lanes_;
    std::int32_t shares_;      ///< of the terms of one output
    std::int64_t neighbours_;  ///< terms that a share takes together
    Shape space_;
    Shape kept_;
    Shape reduced_;
    std::int64_t count_;
    Domain domain_;  ///< of all results
    std::vector<Compiled> reductions_;
    std::optional<CompiledExpr> begin_;  ///< where the reduction is ragged
    std::optional<CompiledExpr> end_;
    std::vector<CompiledStore> stores_;
    std::vector<CompiledStore> element_stores_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const ReduceRegion& region, std::int32_t consumer_warps) {
    return std::make_unique<ReduceTwin>(region, consumer_warps);
}

}  // namespace stretto
