#include "fuse/own_statistics.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace stretto {
namespace {

constexpr std::int64_t kMostRows = 8;
constexpr std::size_t kMostNodes = 64;   ///< behind a left side
constexpr std::ptrdiff_t kMostSums = 4;  ///< of one left side

/// The values behind one left side that are computed anew for it, in order; none where that is not needed.
using Copies = std::vector<ValueId>;

class OwnStatistics {
public:
    explicit OwnStatistics(const Graph& from) : from_(from), readers_(from.nodes.size()) {
        for (std::size_t i = 0; i < from.nodes.size(); ++i) {
            for (ValueId operand : operands(from.nodes[i])) readers_[operand.index()].push_back(i);
        }
        for (const Output& output : from.outputs) outputs_.insert(output.value);
    }

    Graph run() {
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
            Node node = from_.nodes[i];
            rename_operands(node, [&](ValueId id) { return renamed_[id.index()]; });
            if (const auto side = left_side(from_.nodes[i])) {
                auto* contract = std::get_if<Contract>(&node.op);
                Access& left = contract != nullptr ? contract->a : std::get<Attention>(node.op).query;
                left.source = own_left_side(*side).value;
            }
            renamed_.push_back(add(std::move(node)));
        }
        copy_outputs_and_constants(
            from_, [&](ValueId id) { return renamed_[id.index()]; }, to_);
        return std::move(to_);
    }

private:
    ValueId add(Node node) {
        to_.nodes.push_back(std::move(node));
        return ValueId(static_cast<std::int64_t>(to_.nodes.size()) - 1);
    }

    /// The few rows that a product stages: those of a left side, or the query rows of an attention that tasks share.
    struct LeftSide {
        ValueId value;
        std::int64_t rows;
        std::int64_t depth;
    };

    [[nodiscard]] static std::optional<LeftSide> left_side(const Node& node) {
        std::optional<LeftSide> side;
        if (const auto* contract = std::get_if<Contract>(&node.op)) {
            const auto [batch, m, n, k] = contract->space;
            if (!contract->ragged && contract->b.source != contract->a.source)
                side = LeftSide{ValueId(contract->a.source), batch * m, k};
        } else if (const auto* attention = std::get_if<Attention>(&node.op)) {
            const auto [batch, heads, queries, context, depth] = attention->space;
            if (attention->splits > 1)
                side = LeftSide{ValueId(attention->query.source), batch * heads * queries, depth};
        }
        return side && side->rows <= kMostRows ? side : std::nullopt;
    }

    /// Products of the same left side share it.
    ValueId own_left_side(const LeftSide& side) {
        if (own_.count(side.value) == 0) own_[side.value] = copied(side.value, copies_for(side));
        return own_[side.value];
    }

    ValueId copied(ValueId left, const Copies& copies) {
        std::map<ValueId, ValueId> own;
        for (ValueId value : copies) {
            Node node = from_[value];
            rename_operands(node, [&](ValueId id) {
                const auto found = own.find(id);
                return found != own.end() ? found->second : renamed_[id.index()];
            });
            own[value] = add(std::move(node));
        }
        const auto found = own.find(left);
        return found != own.end() ? found->second : renamed_[left.index()];
    }

    [[nodiscard]] Copies copies_for(const LeftSide& side) const {
        const ValueId left = side.value;
        const auto is_sum = [&](ValueId id) {
            const auto* reduce = std::get_if<Reduce>(&from_[id].op);
            return reduce != nullptr && reduce->op == ReduceOp::Sum && !reduce->ragged &&
                   from_[id].type.dtype == DType::F32 && volume(reduce->extents) == side.depth &&
                   volume(from_[id].type.shape) == side.rows;
        };
        const auto behind = values_behind(left, is_sum);
        if (behind.size() > kMostNodes) return {};
        // What each of them comes from, and what the last of all comes from.
        std::map<ValueId, std::set<ValueId>> sources;
        for (ValueId value : behind) {
            for (ValueId operand : operands(from_[value])) {
                if (behind.count(operand) > 0) {
                    sources[value].insert(sources[operand].begin(), sources[operand].end());
                } else {
                    sources[value].insert(operand);
                }
            }
        }
        if (sources[left].empty()) return {};
        const ValueId last = *sources[left].rbegin();
        Copies copies;
        for (ValueId value : behind) {
            const auto read = operands(from_[value]);
            const bool follows = std::any_of(read.begin(), read.end(), [&](ValueId operand) {
                return std::binary_search(copies.begin(), copies.end(), operand);
            });
            if (follows || (is_sum(value) && sources[value].count(last) > 0)) copies.push_back(value);
        }
        if (std::count_if(copies.begin(), copies.end(), is_sum) > kMostSums) return {};
        const bool shared = std::any_of(copies.begin(), copies.end(), [&](ValueId value) {
            return outputs_.count(value) > 0 || is_read_besides(value, copies, left);
        });
        return shared ? copies : Copies{};
    }

    /// `left` and the element-wise values and sums of rows that it is made of, in order; too many where they are.
    template <class IsSum>
    [[nodiscard]] std::set<ValueId> values_behind(ValueId left, const IsSum& is_sum) const {
        std::set<ValueId> found;
        std::vector<ValueId> open{left};
        while (!open.empty() && found.size() <= kMostNodes) {
            const ValueId value = open.back();
            open.pop_back();
            const bool inside = std::holds_alternative<Pointwise>(from_[value].op) || is_sum(value);
            if (!inside || !found.insert(value).second) continue;
            for (ValueId operand : operands(from_[value])) open.push_back(operand);
        }
        return found;
    }

    /// Is the value read by anything but the copies, and products that have `left` as their left side?
    [[nodiscard]] bool is_read_besides(ValueId value, const Copies& copies, ValueId left) const {
        const auto& readers = readers_[value.index()];
        return std::any_of(readers.begin(), readers.end(), [&](std::size_t reader) {
            const auto side = left_side(from_.nodes[reader]);
            if (side && value == left && side->value == left) return false;
            const ValueId id(static_cast<std::int64_t>(reader));
            return !std::binary_search(copies.begin(), copies.end(), id);
        });
    }

    const Graph& from_;
    Graph to_;
    std::vector<std::vector<std::size_t>> readers_;  ///< by value
    std::set<ValueId> outputs_;
    std::vector<ValueId> renamed_;
    std::map<ValueId, ValueId> own_;  ///< by left side: that of the products
};

}  // namespace

Graph with_own_statistics(const Graph& graph) { return OwnStatistics(graph).run(); }

}  // namespace stretto
