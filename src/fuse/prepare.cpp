#include "fuse/prepare.h"

#include <algorithm>
#include <numeric>

#include "abi/abi.h"
#include "base/division.h"
#include "fuse/region.h"

namespace stretto {
namespace {

/// Operations that combine one part of one element: two loads, an exponential, a product and two sums.
constexpr double kCombineOperations = 18;
/// Parts whose combination a thread holds in registers: two words each.
constexpr std::int64_t kMostParts = 24;

/// How attention's context is split.
struct Splits {
    std::int64_t count = 1;
    bool combined_once =
        false;  ///< tasks of their own combine the parts; else each reader of the result does
};

/// The splits of least time: that of reading a split's blocks, and that of combining the parts; or `asked`, where it is not 0
/// and there are so many blocks. A worker reads no faster than its share of the bandwidth, also where others are idle: what a
/// strip of rows takes is a chain of latencies.
Splits choose_splits(const Attention& op, const Machine& machine, std::int64_t asked) {
    const auto [batch, heads, queries, context, depth] = op.space;
    const std::int64_t groups = std::max<std::int64_t>(batch * heads / heads_per_row(op), 1);
    const std::int64_t blocks = ceil_div(context, abi::kAttentionBlock);
    const auto block_bytes =
        static_cast<double>(abi::kAttentionBlock * depth *
                            static_cast<std::int64_t>(size_of(op.key.type) + size_of(op.value.type)));
    const auto elements = static_cast<double>(batch * heads * queries * depth);
    const double part_us = elements * kCombineOperations / machine.flops;
    const double tasks =
        std::clamp(elements / (machine.consumer_warps * 32), 1.0, static_cast<double>(machine.workers));
    const double hand_off_us =
        machine.task_us + machine.word_us + elements * static_cast<double>(kWordBytes) * machine.word_byte_us;
    const auto once_us = [&](std::int64_t splits) {
        return hand_off_us + static_cast<double>(splits) * part_us / tasks;
    };
    const auto time = [&](std::int64_t splits) {
        const auto busy = static_cast<double>(std::max<std::int64_t>(groups * splits, machine.workers));
        const double reading =
            static_cast<double>(ceil_div(blocks, splits)) * block_bytes * busy / machine.bandwidth;
        if (splits == 1) return reading;
        return reading + machine.load_latency_us +
               std::min(static_cast<double>(splits) * part_us, once_us(splits));
    };
    std::int64_t best = asked > 0 ? std::min(asked, blocks) : 1;
    const std::int64_t most = asked > 0 ? 0 : std::min({blocks, machine.workers / groups, kMostParts});
    for (std::int64_t splits = 2; splits <= most; ++splits) {
        if (time(splits) < time(best)) best = splits;
    }
    return {best, best > 1 && once_us(best) < static_cast<double>(best) * part_us};
}

/// sum over splits of exp(log_j - M) * result_j / sum over splits of exp(log_j - M), with M the largest logarithm.
Expr combination(ValueId partial, const Attention& op, const Type& type) {
    const auto [batch, heads, queries, context, depth] = op.space;
    const std::int64_t width = depth + 2;
    const auto part = [&](std::int64_t split, std::int64_t column, std::int64_t column_stride) {
        Access access{partial.value, DType::F32, {}, {}};
        access.map.dims = {{atom(batch, heads * queries * width)},
                           {atom(heads, queries * width)},
                           {atom(queries, width)},
                           {atom(depth, column_stride)}};
        access.map.offset = split * batch * heads * queries * width + column;
        return access;
    };
    Expr expr;
    std::int32_t largest = -1;
    for (std::int64_t j = 0; j < op.splits; ++j) {
        const std::int32_t log = expr.load(part(j, depth, 0));
        largest = j == 0 ? log : expr.apply(Op::Max, {largest, log});
    }
    std::int32_t sum = -1;
    std::int32_t weight = -1;
    for (std::int64_t j = 0; j < op.splits; ++j) {
        const std::int32_t scale =
            expr.apply(Op::Exp, {expr.apply(Op::Sub, {expr.load(part(j, depth, 0)), largest})});
        const std::int32_t scaled = expr.apply(Op::Mul, {scale, expr.load(part(j, 0, 1))});
        sum = j == 0 ? scaled : expr.apply(Op::Add, {sum, scaled});
        weight = j == 0 ? scale : expr.apply(Op::Add, {weight, scale});
    }
    return extracted(expr, expr.cast(expr.apply(Op::Div, {sum, weight}), type.dtype));
}

/// For each value whether it is an Update that may change its state in place: no other Update starts from the same value,
/// or it is the chosen one of them, and a state input changes only on the way to its next value.
std::vector<bool> in_place(const Graph& graph) {
    std::vector<bool> leads_to_output(graph.nodes.size(), false);
    for (const Output& output : graph.outputs) {
        if (!output.state_input.valid()) continue;
        std::vector<ValueId> chain;
        ValueId value = output.value;
        while (const auto* update = std::get_if<Update>(&graph[value].op)) {
            chain.push_back(value);
            value = update->state;
        }
        if (value != output.state_input) continue;
        for (ValueId link : chain) leads_to_output[link.index()] = true;
    }
    std::vector<ValueId> chosen(graph.nodes.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const auto* update = std::get_if<Update>(&graph.nodes[i].op);
        if (update == nullptr) continue;
        ValueId& best = chosen[update->state.index()];
        if (!best.valid() || !leads_to_output[best.index()]) best = ValueId(static_cast<std::int64_t>(i));
    }
    std::vector<bool> result(graph.nodes.size(), false);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const auto* update = std::get_if<Update>(&graph.nodes[i].op);
        if (update == nullptr || chosen[update->state.index()].index() != i) continue;
        const bool of_input = std::holds_alternative<Input>(graph[update->state].op);
        result[i] = !of_input || leads_to_output[i];
    }
    return result;
}

class Preparation {
public:
    Preparation(const Graph& graph, const Machine& machine, const UpdateCare& care,
                const PlanOptions& options)
        : from_(graph),
          machine_(machine),
          care_(care),
          options_(options),
          renamed_(graph.nodes.size()),
          result_(graph.nodes.size()),
          in_place_(in_place(graph)) {}

    Prepared run() {
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
            key_ = i;
            Node node = from_.nodes[i];
            rename_operands(node, [&](ValueId id) { return renamed_[id.index()]; });
            elements_ = {};
            result_[i] = convert(std::move(node), in_place_[i]);
            renamed_[i] = elements_.valid() ? elements_ : result_[i];
        }
        for (const auto& [value, bytes] : from_.constants)
            to_.constants.emplace_back(renamed_[value.index()], bytes);
        for (const Output& output : from_.outputs) {
            ++key_;
            convert(output);
        }
        return {std::move(to_), std::move(update_keys_), std::move(stored_)};
    }

private:
    ValueId add(Node node) {
        to_.nodes.push_back(std::move(node));
        return ValueId(static_cast<std::int64_t>(to_.nodes.size()) - 1);
    }

    ValueId add_copy(ValueId value) {
        const Type type = to_[value].type;
        Expr expr;
        expr.load({value.value, type.dtype, identity_map(type.shape), {}});
        return add({type, Pointwise{std::move(expr)}, to_[value].source});
    }

    ValueId convert(Node node, bool in_place) {
        if (std::holds_alternative<Attention>(node.op)) return split(std::move(node));
        if (auto* update = std::get_if<Update>(&node.op)) {
            copy_state_if_needed(*update, in_place);
            return add_update(std::move(node));
        }
        return add(std::move(node));
    }

    ValueId split(Node node) {
        auto& op = std::get<Attention>(node.op);
        if (op.splits > 1) return add(std::move(node));
        const Splits splits = choose_splits(op, machine_, options_.attention_splits);
        if (splits.count == 1) return add(std::move(node));
        const Type type = node.type;
        op.splits = splits.count;
        const Shape whole{op.space[0], op.space[1], op.space[2], op.space[4]};
        node.type = {DType::F32, {op.splits, op.space[0], op.space[1], op.space[2], op.space[4] + 2}};
        const Attention copy = op;
        const Source source = node.source;
        const ValueId partial = add(std::move(node));
        const ValueId combined =
            add({{type.dtype, whole}, Pointwise{combination(partial, copy, type)}, source});
        if (splits.combined_once) stored_.insert(combined);
        return combined;
    }

    void copy_state_if_needed(Update& update, bool in_place) {
        if (care_.copied.count(key_) == 0 && in_place) return;
        const ValueId copy = add_copy(update.state);
        update.state = copy;
        update.target.source = copy.value;
    }

    ValueId add_update(Node node) {
        auto& update = std::get<Update>(node.op);
        update_keys_.push_back(key_);
        if (care_.separated.count(key_) != 0) {
            const DType type = update.expr.type();
            Expr value = extracted(update.expr, update.expr.root());
            const ValueId elements = add({{type, update.space}, Pointwise{std::move(value)}, node.source});
            Expr rest;
            for (std::int32_t& index : update.indices) index = copy_into(rest, update.expr, index);
            rest.load({elements.value, type, identity_map(update.space), {}});
            update.expr = std::move(rest);
            // Readers of the whole new value need not wait for those of the old one.
            const bool whole = update.indices.empty() && type == node.type.dtype &&
                               update.space == node.type.shape &&
                               normalized(update.target.map) == normalized(identity_map(update.space));
            if (whole) elements_ = elements;
        }
        return add(std::move(node));
    }

    /// The input whose buffer the value lives in, through updates in place; invalid for others.
    [[nodiscard]] ValueId home(ValueId value) const {
        while (const auto* update = std::get_if<Update>(&to_[value].op)) value = update->state;
        return std::holds_alternative<Input>(to_[value].op) ? value : ValueId();
    }

    void convert(const Output& output) {
        Output result = output;
        result.value = result_[output.value.index()];
        if (output.state_input.valid()) {
            result.state_input = renamed_[output.state_input.index()];
            if (result.value == result.state_input) return;
            if (home(result.value) != result.state_input) result.value = write_back(result);
        } else if (std::holds_alternative<Update>(to_[result.value].op) || home(result.value).valid() ||
                   !taken_.insert(result.value).second) {
            result.value = add_copy(result.value);
        }
        to_.outputs.push_back(std::move(result));
    }

    ValueId write_back(const Output& output) {
        const Type type = to_[output.state_input].type;
        Update update;
        update.state = output.state_input;
        update.space = type.shape;
        update.target = {output.state_input.value, type.dtype, identity_map(type.shape), {}};
        update.expr.load({output.value.value, type.dtype, identity_map(type.shape), {}});
        return add_update({type, std::move(update), to_[output.value].source});
    }

    const Graph& from_;
    const Machine& machine_;
    const UpdateCare& care_;
    const PlanOptions& options_;
    std::vector<ValueId> renamed_;  ///< what readers of each value of `from_` read
    std::vector<ValueId> result_;   ///< what each value of `from_` has become
    ValueId elements_;  ///< all new elements of the update just converted, if they are a value of their own
    std::vector<bool> in_place_;  ///< by value of `from_`
    Graph to_;
    std::size_t key_ = 0;  ///< of the value or output that is being converted
    std::vector<std::size_t> update_keys_;
    std::set<ValueId> stored_;
    std::set<ValueId> taken_;
};

}  // namespace

std::int64_t heads_per_row(const Attention& op) {
    const auto repeated = [](const IndexMap& map) {
        const Atom last = normalized(map).dims[1].back();
        return last.stride == 0 && !last.masked() ? last.extent : 1;
    };
    return std::gcd(repeated(op.key.map), repeated(op.value.map));
}

Prepared prepare(const Graph& graph, const Machine& machine, const UpdateCare& care,
                 const PlanOptions& options) {
    return Preparation(graph, machine, care, options).run();
}

}  // namespace stretto
