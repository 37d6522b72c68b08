#include <algorithm>
#include <utility>

#include "backends/reference/blocks.h"
#include "backends/reference/compiled_store.h"
#include "backends/reference/convert.h"
#include "backends/reference/dot.h"
#include "backends/reference/twin.h"
#include "backends/reference/warp.h"
#include "fuse/left_shares.h"
#include "fuse/product_kind.h"
#include "fuse/ragged.h"

namespace stretto {
namespace {

struct CompiledStat {
    explicit CompiledStat(const RowStat& stat) : term(stat.term), finish(stat.finish) {}
    CompiledExpr term;
    CompiledExpr finish;
};

class MatMulTwin final : public Twin {
public:
    MatMulTwin(const RegionGraph& graph, const MatMulRegion& region, std::int32_t consumer_warps)
        : depth_(region.space[3]),
          warps_(consumer_warps),
          stats_(region.stats.begin(), region.stats.end()),
          a_(counted_left_side(region)),
          a_type_(region.a_type),
          weights_(region.weights.begin(), region.weights.end()),
          kind_(product_kind(region)),
          shares_(left_shares(graph, region, consumer_warps)),
          stores_(compiled(region.stores)) {}

    void run(const Task& task, Buffers buffers, Workspace& workspace) const override {
        for (std::int64_t b = task.tile[0].begin; b < task.tile[0].end; ++b) {
            if (a_type_ == DType::F64) {
                run_batch<double>(b, task.tile[1], task.tile[2], buffers, workspace);
            } else {
                run_batch<float>(b, task.tile[1], task.tile[2], buffers, workspace);
            }
        }
    }

private:
    /// Values of k in a block; those of the device depend on the tile.
    static constexpr std::int64_t kBlockDepth = 256;

    template <class T>
    static constexpr Domain kDomain = std::is_same_v<T, double> ? Domain::F64 : Domain::F32;

    template <class T>
    void run_batch(std::int64_t b, Range m, Range n, Buffers buffers, Workspace& workspace) const {
        const std::int64_t rows = m.size();
        T* left = workspace.scratch<T>(Scratch::Left, rows * depth_);
        std::vector<std::vector<double>> stats;
        for (std::int64_t row = 0; row < rows; ++row) {
            stats.push_back(row_stats<T>(b, m.begin + row, buffers, workspace));
            left_side(b, m.begin + row, stats.back(), left + row * depth_, buffers, workspace);
        }
        T* packed = nullptr;
        const bool streamed = kind_ == abi::ProductKind::Rows || kind_ == abi::ProductKind::Panels;
        if (streamed) {
            packed = workspace.scratch<T>(Scratch::Packed, rows * packed_size(depth_));
            for (std::int64_t row = 0; row < rows; ++row) {
                pack_left(left + row * depth_, depth_, packed + row * packed_size(depth_));
            }
        }
        const std::int64_t block_size = rows * kLanes;
        for (Range part{n.begin, 0}; part.begin < n.end; part.begin = part.end) {
            part.end = std::min<std::int64_t>(n.end, part.begin + kLanes);
            T* sums = workspace.scratch<T>(Scratch::Accumulators, weights_.size() * block_size);
            for (std::size_t j = 0; j < weights_.size(); ++j) {
                if (streamed) {
                    streamed_sums(j, b, part, packed, rows, sums + j * block_size, buffers, workspace);
                } else {
                    direct_sums(j, b, part, left, rows, sums + j * block_size, buffers, workspace);
                }
            }
            store(b, m, part, sums, stats, buffers, workspace);
        }
    }

    /// Thread t of a row's threads adds the terms of groups t, t + threads, ... of neighbours; warps add by butterfly, then
    /// in order.
    template <class T>
    std::vector<double> row_stats(std::int64_t b, std::int64_t m, Buffers buffers,
                                  Workspace& workspace) const {
        std::vector<double> stats;
        std::vector<T> threads(static_cast<std::size_t>(shares_.row_warps * kWarp));
        for (const CompiledStat& stat : stats_) {
            std::fill(threads.begin(), threads.end(), T{0});
            std::array<T, kLanes> terms;
            each_block(b, m, stats, [&](const Block& block, std::int64_t k) {
                convert_lanes(stat.term.run(block, buffers, workspace), stat.term.domain(), terms.data(),
                              kDomain<T>, block.lanes);
                for (std::int32_t i = 0; i < block.lanes; ++i)
                    threads[(k + i) / shares_.width % threads.size()] += terms[i];
            });
            T sum{0};
            for (std::int64_t warp = 0; warp < shares_.row_warps; ++warp)
                sum += butterfly_sum(threads.data() + warp * kWarp);
            const std::array<std::int64_t, 4> at{b, m, 0, 0};
            const void* accumulator = &sum;
            Block block;
            block.lanes = 1;
            block.at = at;
            block.accumulators = {&accumulator, 1};
            block.accumulator_domain = kDomain<T>;
            block.stats = stats;
            stats.push_back(stat.finish.scalar(block, buffers, workspace));
        }
        return stats;
    }

    /// One row of the left side, rounded to its type.
    template <class T>
    void left_side(std::int64_t b, std::int64_t m, const std::vector<double>& stats, T* out, Buffers buffers,
                   Workspace& workspace) const {
        each_block(b, m, stats, [&](const Block& block, std::int64_t k) {
            convert_lanes(a_.run(block, buffers, workspace), a_.domain(), out + k, kDomain<T>, block.lanes);
        });
        if (!is_narrow_float(a_type_)) return;
        for (std::int64_t k = 0; k < depth_; ++k) out[k] = rounded_lane(static_cast<float>(out[k]), a_type_);
    }

    template <class Use>
    void each_block(std::int64_t b, std::int64_t m, const std::vector<double>& stats, Use&& use) const {
        for (std::int64_t k = 0; k < depth_; k += kLanes) {
            const std::array<std::int64_t, 4> at{b, m, 0, k};
            Block block;
            block.lanes = static_cast<std::int32_t>(std::min<std::int64_t>(kLanes, depth_ - k));
            block.at = at;
            block.dim = 3;
            block.stats = stats;
            use(block, k);
        }
    }

    /// In panels, the device adds the products of one mma in an order of its own; here, its lanes' parts one by one.
    template <class T>
    void streamed_sums(std::size_t j, std::int64_t b, Range n, const T* packed, std::int64_t rows, T* sums,
                       Buffers buffers, Workspace& workspace) const {
        const CompiledAccess& weight = weights_[j];
        const std::array<std::int64_t, 4> at{b, 0, n.begin, 0};
        Block block;
        block.lanes = static_cast<std::int32_t>(n.size());
        block.at = at;
        block.dim = 2;
        std::array<std::int64_t, kLanes> first;
        weight.offsets(block, {}, first.data());
        std::array<const std::byte*, kLanes> row_of;
        for (std::int64_t row = 0; row < n.size(); ++row) {
            if (workspace.guard) workspace.guard->read(weight.buffer(), first[row], 1, depth_);
            row_of[row] = buffers[weight.buffer().index()] +
                          first[row] * static_cast<std::int64_t>(size_of(weight.type()));
        }
        const LaneSum lane_sum(kind_ == abi::ProductKind::Panels ? warps_ : 0);
        dot_rows(packed, rows, row_of.data(), n.size(), weight.type(), depth_, lane_sum, sums, kLanes);
    }

    /// Warp w adds the products of k = w, w + warps, ...; the warps' sums are added in order. In tiles of 16-bit products
    /// each warp adds its outputs' products itself, one k after the other. Of long sums in those of F32, blocks of k are
    /// added up by themselves.
    template <class T>
    void direct_sums(std::size_t j, std::int64_t b, Range n, const T* left, std::int64_t rows, T* sums,
                     Buffers buffers, Workspace& workspace) const {
        const CompiledAccess& weight = weights_[j];
        const bool alone = kind_ == abi::ProductKind::Tiles && size_of(a_type_) == 2;
        const std::int64_t shares = alone ? 1 : warps_;
        const std::int64_t block_depth =
            kind_ == abi::ProductKind::Tiles && !alone && depth_ > abi::kLongSum ? kBlockDepth : depth_;
        const std::int64_t all = rows * shares * kLanes;
        T* slices = workspace.scratch<T>(Scratch::Partials, all);
        T* of_block = workspace.scratch<T>(Scratch::Group, all);
        std::fill_n(slices, all, T{0});
        std::fill_n(of_block, all, T{0});
        std::array<T, kLanes> values;
        for (std::int64_t k = 0; k < depth_; ++k) {
            const std::array<std::int64_t, 4> at{b, 0, n.begin, k};
            Block block;
            block.lanes = static_cast<std::int32_t>(n.size());
            block.at = at;
            block.dim = 2;
            weight.read(block, {}, buffers, workspace, values.data(), kDomain<T>);
            for (std::int64_t row = 0; row < rows; ++row) {
                add_scaled(left[row * depth_ + k], values.data(),
                           of_block + (row * shares + k % shares) * kLanes, n.size());
            }
            if ((k + 1) % block_depth != 0 && k + 1 < depth_) continue;
            for (std::int64_t i = 0; i < all; ++i) slices[i] += std::exchange(of_block[i], T{0});
        }
        for (std::int64_t row = 0; row < rows; ++row) {
            T* out = sums + row * kLanes;
            std::fill_n(out, n.size(), T{0});
            for (std::int64_t warp = 0; warp < shares; ++warp) {
                const T* slice = slices + (row * shares + warp) * kLanes;
                for (std::int64_t i = 0; i < n.size(); ++i) out[i] += slice[i];
            }
        }
    }

    template <class T>
    void store(std::int64_t b, Range m, Range n, const T* sums, const std::vector<std::vector<double>>& stats,
               Buffers buffers, Workspace& workspace) const {
        std::vector<const void*> accumulators(weights_.size());
        for (std::int64_t row = 0; row < m.size(); ++row) {
            for (std::size_t j = 0; j < weights_.size(); ++j) {
                accumulators[j] = sums + (j * m.size() + row) * kLanes;
            }
            const std::array<std::int64_t, 4> at{b, m.begin + row, n.begin, 0};
            Block block;
            block.lanes = static_cast<std::int32_t>(n.size());
            block.at = at;
            block.dim = 2;
            block.accumulators = accumulators;
            block.accumulator_domain = kDomain<T>;
            block.stats = stats[row];
            for (const CompiledStore& store : stores_) store.run(block, buffers, workspace);
        }
    }

    std::int64_t depth_;
    std::int64_t warps_;
    std::vector<CompiledStat> stats_;
    CompiledExpr a_;
    DType a_type_;
    std::vector<CompiledAccess> weights_;
    abi::ProductKind kind_;
    LeftShares shares_;
    std::vector<CompiledStore> stores_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const RegionGraph& graph, const MatMulRegion& region,
                                std::int32_t consumer_warps) {
    return std::make_unique<MatMulTwin>(graph, region, consumer_warps);
}

}  // namespace stretto
