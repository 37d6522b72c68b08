#include "fuse/decide.h"

#include <algorithm>
#include <optional>

#include "fuse/evaluations.h"
#include "fuse/operations.h"
#include "fuse/product_tile.h"
#include "fuse/rescore.h"
#include "graph/inline.h"

namespace stretto {
namespace {

using Way = Decisions::Way;

class Decider {
public:
    Decider(const Graph& graph, const Machine& machine, const RuledOut& ruled_out, const PlanOptions& options)
        : graph_(graph),
          machine_(machine),
          options_(options),
          ruled_out_(ruled_out),
          rescored_(find_rescored(graph, machine, ruled_out)),
          count_(graph.nodes.size()) {
        result_.scored = rescored_.sums;
        result_.way.assign(count_, Way::Map);
        result_.anchor.assign(count_, ValueId());
        consumers_.resize(count_);
        needs_buffer_.assign(count_, false);
        from_inputs_.assign(count_, false);
        behind_work_.assign(count_, false);
        evaluations_.assign(count_, 0);
        row_length_.assign(count_, 0);
    }

    Decisions run() {
        collect();
        for (std::size_t i = 0; i < count_; ++i) classify(ValueId(static_cast<std::int64_t>(i)));
        for (std::size_t i = count_; i-- > 0;) decide_inlining(ValueId(static_cast<std::int64_t>(i)));
        for (std::size_t i = 0; i < count_; ++i) join_reduction(ValueId(static_cast<std::int64_t>(i)));
        return std::move(result_);
    }

private:
    [[nodiscard]] Way& way(ValueId id) { return result_.way[id.index()]; }
    [[nodiscard]] Way way_of(ValueId id) const { return result_.way[id.index()]; }
    [[nodiscard]] std::int64_t size(ValueId id) const { return volume(graph_[id].type.shape); }
    template <class T>
    [[nodiscard]] const T* as(ValueId id) const {
        return std::get_if<T>(&graph_[id].op);
    }
    [[nodiscard]] const Expr* expression(ValueId id) const {
        if (const auto* op = as<Pointwise>(id)) return &op->expr;
        if (const auto* op = as<Update>(id)) return &op->expr;
        return nullptr;
    }

    void collect() {
        for (std::size_t i = 0; i < count_; ++i) {
            const ValueId user(static_cast<std::int64_t>(i));
            for (ValueId operand : operands(graph_[user])) consumers_[operand.index()].push_back(user);
            from_inputs_[i] =
                as<Input>(user) != nullptr || (as<Pointwise>(user) != nullptr && reads_only_inputs(user));
            if (const auto* contract = as<Contract>(user)) {
                keep(contract->b);
                keep_bounds(contract->ragged);
                // Every task of a column would evaluate the left side anew.
                if (has_many_rows(contract->space, contract->a.type) || rescored_.sums[i]) keep(contract->a);
            } else if (const auto* reduce = as<Reduce>(user)) {
                keep_bounds(reduce->ragged);
            } else if (const auto* attention = as<Attention>(user)) {
                needs_buffer_[static_cast<std::size_t>(attention->key.source)] = true;
                needs_buffer_[static_cast<std::size_t>(attention->value.source)] = true;
            } else if (const auto* update = as<Update>(user)) {
                needs_buffer_[update->state.index()] = true;
            }
        }
        for (const Output& output : graph_.outputs) needs_buffer_[output.value.index()] = true;
        for (ValueId id : ruled_out_.inlining) needs_buffer_[id.index()] = true;
    }

    /// An operand that is read as it lies in memory.
    void keep(const Access& operand) {
        const auto source = static_cast<std::size_t>(operand.source);
        if (!rescored_.values[source]) needs_buffer_[source] = true;
    }

    void keep_bounds(const std::optional<Ragged>& ragged) {
        if (!ragged) return;
        needs_buffer_[static_cast<std::size_t>(ragged->begin.source)] = true;
        needs_buffer_[static_cast<std::size_t>(ragged->end.source)] = true;
    }

    /// Does some operand of `id`, other than its element-for-element reads of `anchor`, come from `anchor`?
    [[nodiscard]] bool depends_otherwise(ValueId id, ValueId anchor) const {
        std::vector<ValueId> open;
        const auto visit = [&](ValueId v) {
            if (v > anchor) open.push_back(v);
        };
        for (ValueId operand : operands(graph_[id])) visit(operand);
        std::set<ValueId> seen;
        while (!open.empty()) {
            const ValueId v = open.back();
            open.pop_back();
            if (!seen.insert(v).second) continue;
            const bool inlined_here = way_is_chain_to(v, id);
            for (ValueId operand : operands(graph_[v])) {
                if (operand == anchor && !inlined_here) return true;
                visit(operand);
            }
        }
        return false;
    }

    /// Is `v` inlined, element for element and only there, into `id`?
    [[nodiscard]] bool way_is_chain_to(ValueId v, ValueId id) const {
        while (v != id) {
            if (result_.way[v.index()] != Way::Inline || consumers_[v.index()].size() != 1) return false;
            v = consumers_[v.index()].front();
        }
        return true;
    }

    /// The sources that `id` reads element for element, in every one of its reads of them.
    [[nodiscard]] std::vector<ValueId> elementwise_sources(ValueId id) const {
        const Expr* expr = expression(id);
        if (expr == nullptr) return {};
        const auto* update = as<Update>(id);
        const std::int64_t space = update != nullptr ? volume(update->space) : size(id);
        std::vector<ValueId> sources;
        for (ValueId source : operands(graph_[id])) {
            const bool all = std::all_of(expr->accesses.begin(), expr->accesses.end(), [&](const Access& a) {
                return a.source != source.value || (a.indirect.empty() && is_linear_identity(a.map, space));
            });
            const bool read = std::any_of(expr->accesses.begin(), expr->accesses.end(),
                                          [&](const Access& a) { return a.source == source.value; });
            if (all && read && size(source) == space) sources.push_back(source);
        }
        return sources;
    }

    /// Contractions that `id` reads element for element, directly or through chains inlined into it.
    void collect_contractions(ValueId id, std::vector<ValueId>& out) const {
        for (ValueId source : elementwise_sources(id)) {
            if (as<Contract>(source) != nullptr) {
                out.push_back(source);
            } else if (result_.way[source.index()] == Way::Inline) {
                collect_contractions(source, out);
            }
        }
    }

    [[nodiscard]] bool same_left_side(ValueId a, ValueId b) const {
        const auto* x = as<Contract>(a);
        const auto* y = as<Contract>(b);
        return x->space == y->space && x->a == y->a && x->ragged == y->ragged && x->b.type == y->b.type &&
               graph_[a].type.dtype == graph_[b].type.dtype;
    }

    /// Forward: inputs, anchors, and what joins a contraction's epilogue.
    void classify(ValueId id) {
        if (as<Input>(id) != nullptr) {
            way(id) = Way::Given;
        } else if (rescored_.values[id.index()]) {
            way(id) = Way::Inline;
        } else if (expression(id) == nullptr) {
            way(id) = Way::Anchor;
        } else if (ruled_out_.epilogue.count(id) == 0 && !waits_for_readers(id)) {
            join_contraction(id);
        }
    }

    /// Does an update change a state whose old value others read? It waits for them, and would hold up a product.
    [[nodiscard]] bool waits_for_readers(ValueId id) const {
        const auto* update = as<Update>(id);
        return update != nullptr && consumers_[update->state.index()].size() > 1;
    }

    void join_contraction(ValueId id) {
        // First take in what only this value reads, element for element; undone if no contraction is found.
        std::vector<ValueId> chained;
        for (ValueId source : elementwise_sources(id)) {
            const bool ours = way(source) == Way::Epilogue && as<Pointwise>(source) != nullptr &&
                              consumers_[source.index()].size() == 1 && !needs_buffer_[source.index()];
            if (ours) chained.push_back(source);
        }
        for (ValueId source : chained) way(source) = Way::Inline;
        std::vector<ValueId> anchors;
        collect_contractions(id, anchors);
        std::sort(anchors.begin(), anchors.end());
        while (!anchors.empty() && depends_on_region(id, root(anchors.back()))) anchors.pop_back();
        if (anchors.empty()) {
            for (ValueId source : chained) way(source) = Way::Epilogue;
            return;
        }
        way(id) = Way::Epilogue;
        const ValueId anchor = root(anchors.back());
        result_.anchor[id.index()] = anchor;
        for (ValueId other : anchors) {
            const bool alone = root(other) == other && members(other).empty() &&
                               !rescored_.sums[other.index()] && !rescored_.sums[anchor.index()];
            if (other != anchor && alone && same_left_side(other, anchor) &&
                !is_needed_inside(anchor, other)) {
                result_.anchor[other.index()] = anchor;
            }
        }
    }

    [[nodiscard]] ValueId root(ValueId contract) const {
        const ValueId merged = result_.anchor[contract.index()];
        return merged.valid() ? merged : contract;
    }

    /// Contractions merged into the region of `contraction`, and its epilogue values.
    [[nodiscard]] std::vector<ValueId> members(ValueId contraction) const {
        std::vector<ValueId> found;
        for (std::size_t i = 0; i < count_; ++i) {
            const bool joined = result_.anchor[i] == contraction && result_.way[i] != Way::Inline;
            if (joined) found.push_back(ValueId(static_cast<std::int64_t>(i)));
        }
        return found;
    }

    /// Would `id`, in the region of `contraction`, wait for something that the region itself computes?
    [[nodiscard]] bool depends_on_region(ValueId id, ValueId contraction) const {
        const auto inside = members(contraction);
        return depends_otherwise(id, contraction) ||
               std::any_of(inside.begin(), inside.end(), [&](ValueId member) {
                   return way_of(member) == Way::Anchor && depends_otherwise(id, member);
               });
    }

    /// Does an epilogue value in the region of `contraction` wait for something that comes from `other`?
    [[nodiscard]] bool is_needed_inside(ValueId contraction, ValueId other) const {
        const auto inside = members(contraction);
        return std::any_of(inside.begin(), inside.end(), [&](ValueId member) {
            return way_of(member) == Way::Epilogue && depends_otherwise(member, other);
        });
    }

    /// Backward: is `id` recomputed by its consumers?
    void decide_inlining(ValueId id) {
        if (rescored_.values[id.index()]) evaluations_[id.index()] = spread(size(id));
        if (rescored_.values[id.index()] || rescored_.sums[id.index()]) return;
        const bool reduction = as<Reduce>(id) != nullptr;
        // Where the accumulator itself is stored for others, an epilogue saves no hand-off.
        const bool idle_epilogue =
            way(id) == Way::Epilogue && is_stored_besides(result_.anchor[id.index()], id);
        const bool open = way(id) == Way::Map || way(id) == Way::Inline || reduction || idle_epilogue;
        if (!open || as<Update>(id) != nullptr) return;
        if (consumers_[id.index()].empty() || needs_buffer_[id.index()]) {
            if (way(id) == Way::Inline) way(id) = Way::Map;
            return;
        }
        double evaluated = 0;
        std::optional<std::int64_t> row;
        bool prologue = true;
        for (ValueId user : consumers_[id.index()]) {
            evaluated += evaluations_by(user, id);
            const std::int64_t length = prologue_row(user, id);
            prologue = prologue && length > 0 && (!row || *row == length);
            row = length;
        }
        behind_work_[id.index()] = from_inputs_[id.index()] && is_read_behind_work(id);
        const double own = reduction ? operations(as<Reduce>(id)->term) : operations(*expression(id));
        // Elements that are stored are evaluated once, too.
        const double repeated = reduction ? evaluated : std::max(0.0, evaluated - spread(size(id)));
        const double recompute = repeated * own / machine_.flops;
        const double traffic =
            reduction ? 0 : (bytes_if_stored(id) - bytes_if_recomputed(id)) / machine_.bandwidth;
        const double hand_off =
            traffic + options_.recompute_up_to *
                          (behind_work_[id.index()]
                               ? machine_.task_us + evaluated * kLoadOperations / machine_.flops
                               : machine_.counter_us + machine_.task_us + machine_.load_latency_us);
        const bool chained = way(id) == Way::Inline;
        if (reduction) {
            const auto* op = as<Reduce>(id);
            const bool fits = prologue && op->op == ReduceOp::Sum && !op->ragged &&
                              volume(op->extents) == *row && graph_[id].type.dtype != DType::F64;
            way(id) = fits && recompute < hand_off ? Way::Inline : Way::Anchor;
        } else if (chained || recompute < hand_off) {
            way(id) = Way::Inline;
        }
        if (way(id) != Way::Inline) return;
        evaluations_[id.index()] = evaluated;
        row_length_[id.index()] = prologue ? *row : 0;
    }

    /// Of at most `count` elements.
    [[nodiscard]] double bytes(ValueId id, std::int64_t count) const {
        return static_cast<double>(std::min(size(id), count)) *
               static_cast<double>(size_of(graph_[id].type.dtype));
    }

    [[nodiscard]] double operand_bytes(ValueId id) const {
        double sum = 0;
        for (ValueId operand : operands(graph_[id])) sum += bytes(operand, size(id));
        return sum;
    }

    /// Memory traffic of computing `id` once, storing it, and reading it in each consumer.
    [[nodiscard]] double bytes_if_stored(ValueId id) const {
        return operand_bytes(id) +
               bytes(id, size(id)) * (1 + static_cast<double>(consumers_[id.index()].size()));
    }

    [[nodiscard]] double bytes_if_recomputed(ValueId id) const {
        return operand_bytes(id) * static_cast<double>(consumers_[id.index()].size());
    }

    /// Is everything that `id` reads there when a launch begins, or computed from that alone?
    [[nodiscard]] bool reads_only_inputs(ValueId id) const {
        const auto read = operands(graph_[id]);
        return std::all_of(read.begin(), read.end(), [&](ValueId v) { return from_inputs_[v.index()]; });
    }

    /// Do all readers of `id` wait for other work too, so that a hand-off of it costs them no time?
    [[nodiscard]] bool is_read_behind_work(ValueId id) const {
        const auto& users = consumers_[id.index()];
        return std::all_of(users.begin(), users.end(), [&](ValueId user) {
            return from_inputs_[user.index()] ? behind_work_[user.index()] : !reads_only_inputs(user);
        });
    }

    /// Is `value` read by anything but `reader` and other values of its own region, directly or through what is
    /// inlined into them?
    [[nodiscard]] bool is_stored_besides(ValueId value, ValueId reader) const {
        const auto& users = consumers_[value.index()];
        return std::any_of(users.begin(), users.end(), [&](ValueId user) {
            if (user == reader) return false;
            const Way way = result_.way[user.index()];
            if (way == Way::Inline) return is_stored_besides(user, reader);
            return way != Way::Epilogue || result_.anchor[user.index()] != result_.anchor[reader.index()];
        });
    }

    /// Length of the rows of the contraction whose left side `user` computes from `id`; 0 where it is anything else.
    [[nodiscard]] std::int64_t prologue_row(ValueId user, ValueId id) const {
        if (const auto* contract = as<Contract>(user)) {
            return contract->a.source == id.value && contract->b.source != id.value ? contract->space[3] : 0;
        }
        return result_.way[user.index()] == Way::Inline ? row_length_[user.index()] : 0;
    }

    [[nodiscard]] double spread(std::int64_t total) const {
        return worker_share(static_cast<double>(total), machine_);
    }

    /// How often one worker evaluates `id` on behalf of `user` in one launch.
    [[nodiscard]] double evaluations_by(ValueId user, ValueId id) const {
        if (as<Contract>(user) == nullptr && result_.way[user.index()] == Way::Inline)
            return evaluations_[user.index()];
        return evaluations(graph_, user, id, machine_);
    }

    /// Forward, once inlining is known: element-wise work on a stored reduction joins its region.
    void join_reduction(ValueId id) {
        if (way(id) != Way::Map || ruled_out_.epilogue.count(id) != 0) return;
        for (ValueId source : elementwise_sources(id)) {
            if (as<Reduce>(source) == nullptr || way(source) != Way::Anchor || depends_otherwise(id, source))
                continue;
            way(id) = Way::Epilogue;
            result_.anchor[id.index()] = source;
            return;
        }
    }

    const Graph& graph_;
    const Machine& machine_;
    const PlanOptions& options_;
    const RuledOut& ruled_out_;
    const Rescored rescored_;
    std::size_t count_;
    Decisions result_;
    std::vector<std::vector<ValueId>> consumers_;
    std::vector<bool> needs_buffer_;
    std::vector<bool> from_inputs_;  ///< inputs, and element-wise values of inputs alone
    std::vector<bool> behind_work_;  ///< see is_read_behind_work; decided for values of inputs alone
    std::vector<double> evaluations_;
    std::vector<std::int64_t> row_length_;
};

}  // namespace

Decisions decide(const Graph& graph, const Machine& machine, const RuledOut& ruled_out,
                 const PlanOptions& options) {
    return Decider(graph, machine, ruled_out, options).run();
}

}  // namespace stretto
