#include "fuse/join_softmax.h"

#include <algorithm>
#include <optional>

#include "fuse/scored.h"

namespace stretto {
namespace {

const ExprNode& root_of(const Expr& expr) { return expr.nodes.back(); }

/// The buffer whose element the node loads, as F32; nothing where it is anything else.
std::optional<std::int32_t> loaded(const Expr& expr, std::int32_t node) {
    const ExprNode& load = expr.nodes[static_cast<std::size_t>(node)];
    if (load.op != Op::Load || load.type != DType::F32 || !load.args.empty()) return std::nullopt;
    return expr.accesses[static_cast<std::size_t>(load.integer)].source;
}

/// exp(score - maximum) / total
struct Softmax {
    Expr score;
    Expr exponential;
    std::int32_t maximum;
    std::int32_t total;
};

std::optional<Softmax> softmax_of(const Expr& weight) {
    const auto is = [](const Expr& expr, Op op) { return root_of(expr).op == op; };
    if (!is(weight, Op::Div)) return std::nullopt;
    const auto total = loaded(weight, root_of(weight).args[1]);
    const Expr exponential = extracted(weight, root_of(weight).args[0]);
    if (!total || !is(exponential, Op::Exp)) return std::nullopt;
    const Expr difference = extracted(exponential, root_of(exponential).args[0]);
    if (!is(difference, Op::Sub)) return std::nullopt;
    const auto maximum = loaded(difference, root_of(difference).args[1]);
    if (!maximum) return std::nullopt;
    return Softmax{extracted(difference, root_of(difference).args[0]), exponential, *maximum, *total};
}

class Joiner {
public:
    explicit Joiner(RegionGraph& graph) : graph_(graph), joined_(graph.regions.size(), false) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            auto* mix = scored(r);
            if (mix == nullptr || !mix->sums.front().factor) continue;
            if (const auto softmax = softmax_of(mix->sums.front().weight)) join(r, *mix, *softmax);
        }
        std::vector<Region> left;
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            if (!joined_[r]) left.push_back(std::move(graph_.regions[r]));
        }
        graph_.regions = std::move(left);
    }

private:
    [[nodiscard]] ScoredRegion* scored(std::size_t region) const {
        return std::get_if<ScoredRegion>(&graph_.regions[region].body);
    }

    void join(std::size_t r, ScoredRegion& mix, const Softmax& softmax) {
        const auto maximum = find(r, mix, ReduceOp::Max, softmax.score, softmax.maximum);
        const auto total = find(r, mix, ReduceOp::Sum, softmax.exponential, softmax.total);
        if (!maximum || !total || *maximum > *total || is_read_between(*maximum, *total, r, softmax)) return;
        mix.softmax = true;
        mix.sums.front().weight = softmax.score;
        int number = 0;
        for (const std::size_t statistic : {*maximum, *total}) joined_[statistic] = true;
        for (const std::size_t statistic : {*maximum, *total}) {
            Store store = scored(statistic)->stores.front();
            store.target.map.dims[kScoredColumn] = {atom(mix.space[kScoredColumn], 0)};
            store.expr = {};
            store.expr.acc(number++);
            if (is_read_elsewhere(store.target.source, r)) mix.row_stores.push_back(std::move(store));
        }
    }

    /// The region before `r` that reduces `weight` over the same scores and stores the result alone, as it is.
    [[nodiscard]] std::optional<std::size_t> find(std::size_t r, const ScoredRegion& mix, ReduceOp op,
                                                  const Expr& weight, std::int32_t buffer) const {
        for (std::size_t i = 0; i < r; ++i) {
            const ScoredRegion* other = scored(i);
            if (other == nullptr || joined_[i] || other->sums.front().factor || other->op != op ||
                other->stores.size() != 1)
                continue;
            const Store& store = other->stores.front();
            const bool plain = store.target.source == buffer && store.target.type == DType::F32 &&
                               store.expr.nodes.size() == 1 && root_of(store.expr).op == Op::Acc;
            if (plain && same_scores(mix, *other) && other->band == mix.band &&
                one_column(weight) == one_column(other->sums.front().weight))
                return i;
        }
        return std::nullopt;
    }

    static bool same_scores(const ScoredRegion& a, const ScoredRegion& b) {
        return std::equal(a.scores.begin(), a.scores.end(), b.scores.begin(), b.scores.end(), is_same);
    }

    /// Would anyone see that the statistics are stored later?
    [[nodiscard]] bool is_read_between(std::size_t maximum, std::size_t total, std::size_t mix,
                                       const Softmax& softmax) const {
        for (std::size_t i = maximum + 1; i < mix; ++i) {
            if (i == total) continue;
            for (const Use& use : uses(graph_.regions[i])) {
                if (use.access->source == softmax.maximum || use.access->source == softmax.total) return true;
            }
        }
        return false;
    }

    [[nodiscard]] bool is_read_elsewhere(std::int32_t buffer, std::size_t mix) const {
        if (graph_[BufferId(buffer)].role != BufferRole::Arena) return true;
        for (std::size_t i = 0; i < graph_.regions.size(); ++i) {
            if (joined_[i] || i == mix) continue;
            for (const Use& use : uses(graph_.regions[i])) {
                if (use.access->source == buffer) return true;
            }
        }
        return false;
    }

    RegionGraph& graph_;
    std::vector<bool> joined_;  ///< into a later region
};

}  // namespace

void join_softmax(RegionGraph& graph) { Joiner(graph).run(); }

}  // namespace stretto
