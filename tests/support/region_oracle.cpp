#include "support/region_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/abi.h"
#include "base/error.h"
#include "base/rounding.h"

namespace stretto {
namespace {

using Coordinate = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What the main loop of a region hands to its expressions.
struct Results {
    std::vector<double> accumulators;
    std::vector<double> stats;
};

template <class Body>
void for_each(const Shape& shape, Body&& body) {
    Coordinate at(shape.size(), 0);
    for (std::int64_t i = 0; i < volume(shape); ++i) {
        std::int64_t rest = i;
        for (std::size_t d = shape.size(); d-- > 0;) {
            at[d] = rest % shape[d];
            rest /= shape[d];
        }
        body(at);
    }
}

class RegionOracle {
public:
    RegionOracle(const RegionGraph& graph, std::vector<Elements>& buffers)
        : graph_(graph), buffers_(buffers) {}

    void operator()(const MapRegion& region) {
        for_each(region.space, [&](const Coordinate& at) { store(region.stores, at, {}); });
    }

    void operator()(const ReduceRegion& region) {
        const Shape kept(region.space.begin(), region.space.begin() + region.kept);
        const Shape reduced(region.space.begin() + region.kept, region.space.end());
        for_each(kept, [&](const Coordinate& output) {
            Coordinate at = output;
            at.resize(region.space.size(), 0);
            Shape counting = reduced;
            Range part;
            if (region.ragged) {
                part = counted(*region.ragged, at, reduced.front());
                counting.front() = part.size();
            }
            Results results;
            for (const Reduction& reduction : region.reductions) {
                double total = reduction.op == ReduceOp::Sum   ? 0
                               : reduction.op == ReduceOp::Max ? -kInfinity
                                                               : kInfinity;
                for_each(counting, [&](const Coordinate& rest) {
                    std::copy(rest.begin(), rest.end(), at.begin() + region.kept);
                    if (region.ragged) at[kept.size()] += part.begin;
                    const double x = nodes_of(reduction.term, at, results).back();
                    if (reduction.op == ReduceOp::Sum) total += x;
                    if (reduction.op == ReduceOp::Max) total = std::max(total, x);
                    if (reduction.op == ReduceOp::Min) total = std::min(total, x);
                });
                results.accumulators.push_back(total);
            }
            std::fill(at.begin() + region.kept, at.end(), 0);
            store(region.stores, at, results);
            if (region.element_stores.empty()) return;
            for_each(reduced, [&](const Coordinate& rest) {
                std::copy(rest.begin(), rest.end(), at.begin() + region.kept);
                store(region.element_stores, at, results);
            });
        });
    }

    /// The part of a ragged dimension that counts for the result at `at`.
    [[nodiscard]] Range counted(const Ragged& ragged, const Coordinate& at, std::int64_t extent) const {
        const auto bound = [&](const Access& access) {
            Expr expr;
            expr.load(access);
            return std::clamp(nodes_of(expr, at, {}).back(), 0.0, static_cast<double>(extent));
        };
        const auto begin = static_cast<std::int64_t>(bound(ragged.begin));
        return {begin, std::max(begin, static_cast<std::int64_t>(bound(ragged.end)))};
    }

    void operator()(const MatMulRegion& region) {
        const auto [batches, rows, columns, depth] = region.space;
        for_each({batches, rows}, [&](const Coordinate& row) {
            Results results;
            for (const RowStat& stat : region.stats) {
                double sum = 0;
                for (std::int64_t k = 0; k < depth; ++k)
                    sum += value_of(stat.term, {row[0], row[1], 0, k}, results);
                results.accumulators = {sum};
                results.stats.push_back(value_of(stat.finish, {row[0], row[1], 0, 0}, results));
            }
            Elements left;
            const Range part =
                region.ragged ? counted(*region.ragged, {row[0], row[1], 0, 0}, depth) : Range{0, depth};
            for (std::int64_t k = 0; k < depth; ++k) {
                const Coordinate at{row[0], row[1], 0, k};
                const bool zero = k < part.begin || k >= part.end;
                left.push_back(zero ? 0 : rounded(value_of(region.a, at, results), region.a_type));
            }
            for (std::int64_t n = 0; n < columns; ++n) {
                results.accumulators.clear();
                for (const Access& weight : region.weights) {
                    double sum = 0;
                    for (std::int64_t k = 0; k < depth; ++k)
                        sum += left[k] * element(weight, {row[0], row[1], n, k}, {});
                    results.accumulators.push_back(sum);
                }
                store(region.stores, {row[0], row[1], n, 0}, results);
            }
        });
    }

    void operator()(const AttentionRegion& region) {
        const auto [batches, heads, queries, context, width] = region.space;
        for_each({region.splits, batches, heads, queries}, [&](const Coordinate& at) {
            const Coordinate row(at.begin() + 1, at.end());
            std::vector<double> scores(context, -kInfinity);
            double max = -kInfinity;
            for (std::int64_t s = 0; s < context; ++s) {
                if (s / abi::kAttentionBlock % region.splits == at[0]) scores[s] = score(region, row, s);
                max = std::max(max, scores[s]);
            }
            Elements out(width + 2, 0.0);
            double sum = 0;
            for (std::int64_t s = 0; s < context; ++s) {
                if (scores[s] == -kInfinity) continue;
                const double p = std::exp(scores[s] - max);
                for (std::int64_t d = 0; d < width; ++d) {
                    out[d] += p * context_element(region, region.value, region.fresh.value,
                                                  {row[0], row[1], row[2], s, d});
                }
                sum += p;
            }
            if (region.splits == 1 || sum != 0) {
                for (std::int64_t d = 0; d < width; ++d) out[d] /= sum;
            }
            out[width] = max + std::log(sum);
            out[width + 1] = max;
            if (region.splits == 1) out.resize(width);
            const std::int64_t split_stride = batches * heads * queries * (width + 2);
            const std::int64_t first =
                at[0] * split_stride + *offset_of(region.out.map, {row[0], row[1], row[2], 0, 0});
            for (std::size_t d = 0; d < out.size(); ++d)
                write(region.out, first + static_cast<std::int64_t>(d), out[d]);
        });
    }

    /// All positions take part: those outside of the band must make no difference.
    void operator()(const ScoredRegion& region) {
        const auto [batches, rows, columns, context, depth] = region.space;
        for_each({batches, rows}, [&](const Coordinate& row) {
            std::vector<Elements> weights(region.sums.size());
            for (std::int64_t c = 0; c < context; ++c) {
                Results scores;
                for (const Score& score : region.scores) {
                    double sum = 0;
                    for (std::int64_t e = 0; e < depth; ++e) {
                        const Coordinate at{row[0], row[1], 0, c, e};
                        sum += element(score.left, at, {}) * element(score.right, at, {});
                    }
                    scores.accumulators.push_back(sum);
                }
                for (std::size_t s = 0; s < weights.size(); ++s)
                    weights[s].push_back(value_of(region.sums[s].weight, {row[0], row[1], 0, c, 0}, scores));
            }
            if (region.softmax) store_softmax(region, row, weights.front());
            for (std::int64_t n = 0; n < columns; ++n) {
                Results sums;
                for (std::size_t s = 0; s < weights.size(); ++s)
                    sums.accumulators.push_back(
                        sum_of(region.op, region.sums[s].factor, weights[s], {row[0], row[1], n, 0, 0}));
                store(region.stores, {row[0], row[1], n, 0, 0}, sums);
            }
        });
    }

private:
    /// Turns x into the weights of its softmax.
    void store_softmax(const ScoredRegion& region, const Coordinate& row, Elements& weights) {
        const double maximum = *std::max_element(weights.begin(), weights.end());
        double total = 0;
        for (double& x : weights) total += x = std::exp(x - maximum);
        for (double& x : weights) x /= total;
        store(region.row_stores, {row[0], row[1], 0, 0, 0}, {{maximum, total}, {}});
    }

    double sum_of(ReduceOp op, const std::optional<Access>& factor, const Elements& weights,
                  Coordinate at) const {
        if (!factor && op == ReduceOp::Max) return *std::max_element(weights.begin(), weights.end());
        if (!factor && op == ReduceOp::Min) return *std::min_element(weights.begin(), weights.end());
        double sum = 0;
        for (std::size_t c = 0; c < weights.size(); ++c) {
            at[3] = static_cast<std::int64_t>(c);
            sum += factor ? rounded(weights[c], factor->type) * element(*factor, at, {}) : weights[c];
        }
        return sum;
    }

    double score(const AttentionRegion& region, const Coordinate& row, std::int64_t s) const {
        const Coordinate at{row[0], row[1], row[2], s, 0};
        if (!region.length.empty() && s >= value_of(region.length, {row[0], 0, 0, 0, 0}, {}))
            return -kInfinity;
        double dot = 0;
        for (std::int64_t d = 0; d < region.space[4]; ++d) {
            dot += value_of(region.query, {row[0], row[1], row[2], 0, d}, {}) *
                   context_element(region, region.key, region.fresh.key, {row[0], row[1], row[2], s, d});
        }
        dot *= region.scale;
        if (region.mask.empty()) return dot;
        const double mask = value_of(region.mask, at, {});
        if (region.mask.type() != DType::Bool) return dot + mask;
        return mask != 0 ? dot : -kInfinity;
    }

    /// An element of the keys or values: of the fresh row, if that is where it lies.
    double context_element(const AttentionRegion& region, const Access& access, const Expr& fresh,
                           const Coordinate& at) const {
        if (!fresh.empty()) {
            auto row = static_cast<std::int64_t>(value_of(region.fresh.row, {at[0], 0, 0, 0, 0}, {}));
            if (row < 0) row += region.space[3];
            if (std::clamp<std::int64_t>(row, 0, region.space[3] - 1) == at[3])
                return rounded(value_of(fresh, {at[0], at[1], at[2], 0, at[4]}, {}), access.type);
        }
        return element(access, at, {});
    }

    static std::optional<std::int64_t> address(const Access& access, const Coordinate& at,
                                               const std::vector<double>& indirect) {
        auto offset = offset_of(access.map, at);
        for (std::size_t i = 0; offset && i < indirect.size(); ++i) {
            auto c = static_cast<std::int64_t>(indirect[i]);
            if (c < 0) c += access.indirect[i].extent;
            *offset +=
                std::clamp<std::int64_t>(c, 0, access.indirect[i].extent - 1) * access.indirect[i].stride;
        }
        return offset;
    }

    double element(const Access& access, const Coordinate& at, const std::vector<double>& indirect) const {
        const auto offset = address(access, at, indirect);
        return offset ? buffers_[access.source].at(static_cast<std::size_t>(*offset)) : 0;
    }

    Elements nodes_of(const Expr& expr, const Coordinate& at, const Results& results) const {
        Elements done;
        for (const ExprNode& node : expr.nodes) {
            std::vector<double> args;
            for (std::int32_t arg : node.args) args.push_back(done[arg]);
            double x = 0;
            switch (node.op) {
                case Op::Const:
                    x = is_float(node.type) ? node.value : static_cast<double>(node.integer);
                    break;
                case Op::Index:
                    x = static_cast<double>(at.at(node.integer));
                    break;
                case Op::Load:
                    x = element(expr.accesses.at(node.integer), at, args);
                    break;
                case Op::Acc:
                    x = results.accumulators.at(node.integer);
                    break;
                case Op::Stat:
                    x = results.stats.at(node.integer);
                    break;
                default:
                    x = apply_op(node.op, args);
            }
            done.push_back(rounded(x, node.type));
        }
        return done;
    }

    double value_of(const Expr& expr, const Coordinate& at, const Results& results) const {
        return nodes_of(expr, at, results).back();
    }

    void store(const std::vector<Store>& stores, const Coordinate& at, const Results& results) {
        for (const Store& store : stores) {
            const Elements nodes = nodes_of(store.expr, at, results);
            std::vector<double> indirect;
            for (std::int32_t node : store.indices) indirect.push_back(nodes[node]);
            if (const auto offset = address(store.target, at, indirect))
                write(store.target, *offset, nodes.back());
        }
    }

    void write(const Access& target, std::int64_t offset, double value) {
        const DType type = graph_[BufferId(target.source)].dtype;
        buffers_[target.source].at(static_cast<std::size_t>(offset)) = rounded(value, type);
    }

    const RegionGraph& graph_;
    std::vector<Elements>& buffers_;
};

}  // namespace

void evaluate(const RegionGraph& graph, std::vector<Elements>& buffers) {
    RegionOracle oracle(graph, buffers);
    for (const Region& region : graph.regions) std::visit(oracle, region.body);
}

}  // namespace stretto
