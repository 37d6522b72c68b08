#include "fuse/scored.h"

#include <algorithm>
#include <array>

#include "fuse/band.h"
#include "fuse/product_operand.h"
#include "graph/index_groups.h"
#include "graph/inline.h"

namespace stretto {
namespace {

constexpr std::int32_t kMostStages = 3;
constexpr std::int32_t kLeastStages = 2;
/// Registers of one thread for fragments; with more, what else the main loop needs would spill.
constexpr std::int64_t kMostRegisters = 128;

/// A sum over [b, r, n, c], and how these coordinates lie in the row-major iteration space of its operation.
struct Sum {
    std::array<std::int64_t, 4> space{};
    IndexMap coordinates;
    Shape iteration;
    Expr weight;  ///< over the iteration space, as `factor`
    std::optional<Access> factor;
    ReduceOp op = ReduceOp::Sum;
    IndexMap view;  ///< to the dense result
};

std::vector<Atom> digits_of(const Shape& shape, std::size_t begin, std::size_t end) {
    const Shape strides = row_major_strides(shape);
    std::vector<Atom> digits;
    for (std::size_t d = begin; d < end; ++d) digits.push_back(atom(shape[d], strides[d]));
    if (digits.empty()) digits.push_back(atom(1, 0));
    return digits;
}

/// The last of the kept dimensions that is more than one position is that of the rows; the others are the batch.
Sum sum_of(const Reduce& reduce, const Shape& kept, Expr term) {
    std::size_t rows = kept.size();
    while (rows > 0 && kept[rows - 1] == 1) --rows;
    const std::size_t batch = rows > 0 ? rows - 1 : 0;
    Sum sum;
    sum.iteration = kept;
    sum.iteration.insert(sum.iteration.end(), reduce.extents.begin(), reduce.extents.end());
    sum.coordinates.dims = {digits_of(sum.iteration, 0, batch),
                            digits_of(sum.iteration, batch, rows),
                            {atom(1, 0)},
                            digits_of(sum.iteration, kept.size(), sum.iteration.size())};
    const Shape extents = sum.coordinates.shape();
    std::copy(extents.begin(), extents.end(), sum.space.begin());
    sum.view.dims = {{atom(extents[0], extents[1])}, {atom(extents[1], 1)}, {atom(1, 0)}};
    sum.weight = std::move(term);
    sum.op = reduce.op;
    return sum;
}

/// `exchanged`: the weights are the right operand, whose rows are the columns of the result.
Sum sum_of(const Contract& contract, Expr weight, bool exchanged) {
    const auto [batch, m, n, k] = contract.space;
    Sum sum;
    sum.iteration = {batch, m, n, k};
    const Shape strides = row_major_strides(sum.iteration);
    const std::size_t row = exchanged ? 2 : 1;
    const std::size_t column = exchanged ? 1 : 2;
    sum.space = {batch, sum.iteration[row], sum.iteration[column], k};
    sum.coordinates.dims = {{atom(batch, strides[0])},
                            {atom(sum.space[1], strides[row])},
                            {atom(sum.space[2], strides[column])},
                            {atom(k, strides[3])}};
    sum.view.dims = {{atom(batch, m * n)},
                     {atom(sum.space[1], exchanged ? 1 : n)},
                     {atom(sum.space[2], exchanged ? n : 1)}};
    sum.weight = std::move(weight);
    sum.factor = exchanged ? contract.a : contract.b;
    return sum;
}

class Drafter {
public:
    Drafter(const Graph& graph, const Decisions& decisions, const Machine& machine)
        : graph_(graph), decisions_(decisions), machine_(machine) {}

    [[nodiscard]] bool has_scores(const Expr& expr) const {
        return std::any_of(expr.accesses.begin(), expr.accesses.end(),
                           [&](const Access& access) { return score_of(access.source) != nullptr; });
    }

    [[nodiscard]] std::optional<ScoredDraft> draft(const Sum& sum) {
        const auto weight = through_view(sum.weight, sum.coordinates, sum.iteration);
        if (!weight || sum.space[kScoredColumn] > kMostScoredColumns) return std::nullopt;
        std::copy(sum.space.begin(), sum.space.end(), region_.space.begin());
        region_.op = sum.op;
        region_.sums.resize(1);
        if (!take_scores(*weight) || !take_weight(*weight)) return std::nullopt;
        if (sum.factor && !take_factor(sum)) return std::nullopt;
        const Counts counts = sum.op == ReduceOp::Max ? Counts::Visible : Counts::NonZero;
        const Shape space(sum.space.begin(), sum.space.end());
        region_.band = sum.op == ReduceOp::Min ? Range{1 - space[kScoredRow], space[kScoredContext]}
                                               : band_of(region_.sums.front().weight, counts, space);
        if (!cut_scored(region_, machine_)) return std::nullopt;
        ScoredDraft draft{std::move(region_), sum.view};
        draft.view.dims.push_back({atom(draft.region.space[kScoredContext], 0)});
        draft.view.dims.push_back({atom(draft.region.space[kScoredDepth], 0)});
        return draft;
    }

private:
    [[nodiscard]] const Contract* score_of(std::int32_t source) const {
        const ValueId id(source);
        return decisions_.of(id) == Decisions::Way::Inline ? std::get_if<Contract>(&graph_[id].op) : nullptr;
    }

    /// One score for each view of a contraction.
    bool take_scores(const Expr& weight) {
        for (const Access& access : weight.accesses) {
            const Contract* contract = score_of(access.source);
            score_number_.push_back(-1);
            if (contract == nullptr) continue;
            const auto score = score_through(access, *contract);
            if (!score) return false;
            const auto known = std::find(region_.scores.begin(), region_.scores.end(), *score);
            score_number_.back() = static_cast<int>(known - region_.scores.begin());
            if (known == region_.scores.end()) region_.scores.push_back(*score);
        }
        return !region_.scores.empty();
    }

    std::optional<Score> score_through(const Access& access, const Contract& contract) {
        const std::int64_t depth = contract.space[3];
        if (!access.indirect.empty() || access.map.masked() || moves_along(access.map, kScoredColumn))
            return std::nullopt;
        if (region_.scores.empty()) region_.space[kScoredDepth] = depth;
        if (depth != region_.space[kScoredDepth]) return std::nullopt;
        auto left = side(access.map, contract, contract.a);
        auto right = side(access.map, contract, contract.b);
        if (!left || !right) return std::nullopt;
        if (moves_along(left->map, kScoredContext)) std::swap(left, right);
        const bool sides_differ =
            moves_along(left->map, kScoredRow) && !moves_along(left->map, kScoredContext) &&
            moves_along(right->map, kScoredContext) && !moves_along(right->map, kScoredRow);
        if (!sides_differ) return std::nullopt;
        if (!is_plain(*left, kScoredRow, kScoredDepth) || !is_plain(*right, kScoredContext, kScoredDepth))
            return std::nullopt;
        return Score{std::move(*left), std::move(*right)};
    }

    /// An operand of a score over [b, r, n, c, e].
    static std::optional<Access> side(const IndexMap& outer, const Contract& contract,
                                      const Access& operand) {
        const auto [batch, m, n, k] = contract.space;
        IndexMap rows = operand.map;
        rows.dims.pop_back();
        auto map = composed(outer, {batch, m, n}, rows);
        if (!map || !operand.indirect.empty()) return std::nullopt;
        map->dims.push_back(operand.map.dims.back());
        return Access{operand.source, operand.type, std::move(*map), {}};
    }

    /// All operands are of one 16-bit type.
    [[nodiscard]] bool is_plain(const Access& access, std::size_t row, std::size_t depth) const {
        const DType type = region_.scores.empty() ? access.type : region_.scores.front().left.type;
        return size_of(type) == 2 && is_narrow_float(type) && access.type == type &&
               plain_operand(access, row, depth).has_value();
    }

    bool take_weight(const Expr& weight) {
        if (!is_narrow_float(weight.type()) && weight.type() != DType::F32) return false;
        Expr& own = region_.sums.front().weight;
        own = rewritten(weight, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            const ExprNode& node = weight.nodes[i];
            if (node.op != Op::Load) return std::nullopt;
            const int number = score_number_[static_cast<std::size_t>(node.integer)];
            if (number < 0) return std::nullopt;
            return out.cast(out.acc(number), node.type);
        });
        for (Access& access : own.accesses) {
            if (moves_along(access.map, kScoredColumn)) return false;
            access.map.dims.push_back({atom(region_.space[kScoredDepth], 0)});
        }
        return true;
    }

    bool take_factor(const Sum& sum) {
        auto factor = through_view(*sum.factor, sum.coordinates, sum.iteration);
        if (!factor || moves_along(factor->map, kScoredRow)) return false;
        factor->map.dims.push_back({atom(region_.space[kScoredDepth], 0)});
        if (!is_plain(*factor, kScoredColumn, kScoredContext)) return false;
        region_.sums.front().factor = std::move(*factor);
        return true;
    }

    const Graph& graph_;
    const Decisions& decisions_;
    const Machine& machine_;
    ScoredRegion region_;
    std::vector<int> score_number_;  ///< by access of the weight, -1 for others
};

}  // namespace

abi::ScoredShape scored_shape(const ScoredRegion& region) {
    const auto staged = [&](const ScoredSum& sum) { return sum.factor && !staged_as(region, *sum.factor); };
    return {region.tile.rows,
            static_cast<long long>(region.scores.size()),
            region.space[kScoredDepth],
            region.sums.front().factor ? region.space[kScoredColumn] : 0,
            static_cast<long long>(region.sums.size()),
            std::count_if(region.sums.begin(), region.sums.end(), staged),
            region.tile.stages};
}

bool cut_scored(ScoredRegion& region, const Machine& machine) {
    const abi::ScoredShape shape = scored_shape(region);
    if (abi::scored_registers(shape) > kMostRegisters) return false;
    for (const std::int32_t rows : {64, 128}) {
        for (std::int32_t stages = kMostStages; stages >= kLeastStages; --stages) {
            const std::int64_t across = abi::scored_across(rows, machine.consumer_warps);
            region.tile = {rows, static_cast<std::int32_t>(across * abi::kScoredBlock), stages};
            const std::int64_t bytes = abi::scored_scratch(scored_shape(region), machine.consumer_warps);
            if (across > 0 && bytes <= machine.shared_bytes - abi::kControlBytes) return true;
        }
    }
    return false;
}

std::optional<std::size_t> staged_as(const ScoredRegion& region, const Access& factor) {
    if (region.space[kScoredColumn] != region.space[kScoredDepth]) return std::nullopt;
    const Access right = as_right_side(factor);
    const auto found = std::find_if(region.scores.begin(), region.scores.end(),
                                    [&](const Score& score) { return one_column(score.right) == right; });
    if (found == region.scores.end()) return std::nullopt;
    return static_cast<std::size_t>(found - region.scores.begin());
}

Access one_column(Access access) {
    access.map.dims[kScoredColumn] = {atom(1, 0)};
    access.map = normalized(std::move(access.map));
    return access;
}

Expr one_column(Expr expr) {
    for (Access& access : expr.accesses) access = one_column(std::move(access));
    return extracted(expr, expr.root());
}

Access as_right_side(Access factor) {
    std::swap(factor.map.dims[kScoredColumn], factor.map.dims[kScoredDepth]);
    return one_column(std::move(factor));
}

bool is_same(const Score& a, const Score& b) {
    return a.left.source == b.left.source && a.right.source == b.right.source &&
           one_column(a.left) == one_column(b.left) && one_column(a.right) == one_column(b.right);
}

std::optional<ScoredDraft> scored_draft(const Graph& graph, const Decisions& decisions,
                                        const Expansion& expansion, ValueId id, const Machine& machine) {
    Drafter drafter(graph, decisions, machine);
    if (const auto* reduce = std::get_if<Reduce>(&graph[id].op)) {
        return drafter.draft(sum_of(*reduce, graph[id].type.shape, expansion.expanded(reduce->term)));
    }
    const auto& contract = std::get<Contract>(graph[id].op);
    Expr left = expansion.expanded(contract.a);
    Expr right = expansion.expanded(contract.b);
    const bool exchanged = drafter.has_scores(right);
    if (exchanged && drafter.has_scores(left)) return std::nullopt;
    return drafter.draft(sum_of(contract, std::move(exchanged ? right : left), exchanged));
}

}  // namespace stretto
