#include "fuse/rescore.h"

#include <algorithm>
#include <set>

#include "fuse/scored.h"

namespace stretto {
namespace {

constexpr std::int64_t kDepthMultiple = 16;
/// Nodes of an expression that is rather evaluated for every score than stored as large as all scores.
constexpr std::size_t kMostNodes = 32;

class Rescorer {
public:
    Rescorer(const Graph& graph, const Machine& machine, const RuledOut& ruled_out)
        : graph_(graph), machine_(machine), kept_(graph.nodes.size(), false), readers_(graph.nodes.size()) {
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
            for (ValueId operand : operands(graph.nodes[i])) readers_[operand.index()].push_back(i);
        }
        for (const Output& output : graph.outputs) kept_[output.value.index()] = true;
        for (const Output& output : graph.outputs) kept_[output.value.index()] = true;
        for (ValueId id : ruled_out.inlining) kept_[id.index()] = true;
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
            if (could_be_scores(i)) scores_.insert(i);
        }
    }

    Rescored run() {
        while (!drop_unfit()) {
        }
        return std::move(found_);
    }

private:
    [[nodiscard]] bool could_be_scores(std::size_t i) const {
        const auto* contract = std::get_if<Contract>(&graph_.nodes[i].op);
        if (contract == nullptr || contract->ragged || kept_[i] || readers_[i].empty()) return false;
        const auto [batch, m, n, depth] = contract->space;
        const bool typed = is_narrow_float(contract->a.type) && size_of(contract->a.type) == 2;
        const bool many = m * n > depth * (m + n) && std::min(m, n) >= abi::kScoredBlock;
        // Every worker gets rows, or sums that are cut into parts are quicker.
        const std::int64_t tasks = batch * (std::min(m, n) / abi::kScoredBlock);
        return typed && many && depth % kDepthMultiple == 0 && depth <= kMostScoredColumns &&
               2 * tasks >= machine_.workers;
    }

    /// Drops the scores of which not all readers can compute them. Were there none?
    bool drop_unfit() {
        const std::size_t count = graph_.nodes.size();
        found_ = {std::vector<bool>(count, false), std::vector<bool>(count, false)};
        std::vector<std::set<std::size_t>> from(count);  // the scores behind each value
        std::set<std::size_t> unfit;
        for (std::size_t i = 0; i < count; ++i) {
            if (scores_.count(i) != 0) from[i] = {i};
            const bool is_score = !from[i].empty();
            std::set<std::size_t> read;
            for (ValueId operand : operands(graph_.nodes[i])) {
                const bool through = found_.values[operand.index()];
                if (through) read.insert(from[operand.index()].begin(), from[operand.index()].end());
            }
            if (is_score) found_.values[i] = true;
            if (read.empty()) continue;
            if (!is_score && !kept_[i] && std::holds_alternative<Pointwise>(graph_.nodes[i].op)) {
                found_.values[i] = true;
                from[i] = std::move(read);
            } else if (!is_score && can_sum(graph_.nodes[i])) {
                found_.sums[i] = true;
                from[i] = std::move(read);
            } else {
                unfit.insert(read.begin(), read.end());
            }
        }
        if (unfit.empty()) {
            take_cheap();
            unfit = not_drafted(from);
        }
        for (std::size_t score : unfit) scores_.erase(score);
        return unfit.empty();
    }

    static bool can_sum(const Node& node) {
        if (const auto* reduce = std::get_if<Reduce>(&node.op)) return !reduce->ragged;
        const auto* contract = std::get_if<Contract>(&node.op);
        return contract != nullptr && !contract->ragged;
    }

    /// Values as large as the scores, cheap and only for them (masks), are computed anew as well.
    void take_cheap() {
        std::int64_t least = 0;
        for (std::size_t score : scores_) {
            const auto& space = std::get<Contract>(graph_.nodes[score].op).space;
            least = least == 0 ? space[1] * space[2] : std::min(least, space[1] * space[2]);
        }
        std::vector<std::size_t> nodes(graph_.nodes.size(), 0);
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            const auto* op = std::get_if<Pointwise>(&graph_.nodes[i].op);
            if (op == nullptr || least == 0 || volume(graph_.nodes[i].type.shape) < least) continue;
            nodes[i] = op->expr.nodes.size();
            for (ValueId operand : operands(graph_.nodes[i])) nodes[i] += nodes[operand.index()];
        }
        for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
            if (nodes[i] == 0 || nodes[i] > kMostNodes || kept_[i] || readers_[i].empty()) continue;
            const bool only = std::all_of(readers_[i].begin(), readers_[i].end(),
                                          [&](std::size_t reader) { return found_.values[reader]; });
            if (only) found_.values[i] = true;
        }
    }

    /// The scores behind sums that are of another form.
    [[nodiscard]] std::set<std::size_t> not_drafted(const std::vector<std::set<std::size_t>>& from) const {
        Decisions decisions;
        for (bool anew : found_.values)
            decisions.way.push_back(anew ? Decisions::Way::Inline : Decisions::Way::Anchor);
        std::set<std::size_t> unfit;
        try {
            const Expansion expansion(graph_, decisions);
            for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
                const ValueId id(static_cast<std::int64_t>(i));
                if (found_.sums[i] && !scored_draft(graph_, decisions, expansion, id, machine_))
                    unfit.insert(from[i].begin(), from[i].end());
            }
        } catch (const Inexpressible&) {
            return scores_;
        }
        return unfit;
    }

    const Graph& graph_;
    const Machine& machine_;
    std::vector<bool> kept_;  ///< values that have to be stored
    std::vector<std::vector<std::size_t>> readers_;
    std::set<std::size_t> scores_;
    Rescored found_;
};

}  // namespace

Rescored find_rescored(const Graph& graph, const Machine& machine, const RuledOut& ruled_out) {
    return Rescorer(graph, machine, ruled_out).run();
}

}  // namespace stretto
