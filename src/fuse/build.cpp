#include "fuse/build.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "fuse/expand.h"
#include "fuse/length.h"
#include "fuse/prepare.h"
#include "fuse/product_kind.h"
#include "fuse/scale.h"
#include "fuse/scored.h"
#include "graph/inline.h"
#include "graph/promote.h"

namespace stretto {
namespace {

using Way = Decisions::Way;

/// Bulk copies move multiples of 16 bytes between addresses that are multiples of 16.
constexpr std::int64_t kBulkAlignment = 16;

/// A row that fills more of a worker's shared memory than 1 / kMostOfShared leaves the ring too few slots.
constexpr std::int64_t kMostOfShared = 8;

/// The map of a whole dense value over its own coordinates.
Access whole_access(ValueId id, const Type& type) {
    return {id.value, type.dtype, identity_map(type.shape), {}};
}

class RegionBuilder {
public:
    RegionBuilder(const Graph& graph, const Decisions& decisions, const Machine& machine, Numerics numerics)
        : graph_(graph),
          decisions_(decisions),
          machine_(machine),
          numerics_(numerics),
          expansion_(graph, decisions) {
        members_.resize(graph.nodes.size());
        readers_.resize(graph.nodes.size());
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
            const ValueId id(static_cast<std::int64_t>(i));
            const bool joins = decisions.of(id) == Way::Epilogue ||
                               (decisions.of(id) == Way::Anchor && decisions.anchor[i].valid());
            if (joins) members_[decisions.anchor[i].index()].push_back(id);
        }
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
            for (ValueId operand : operands(graph.nodes[i])) {
                readers_[operand.index()].push_back(ValueId(static_cast<std::int64_t>(i)));
            }
        }
    }

    std::vector<DraftRegion> run() {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            const ValueId id(static_cast<std::int64_t>(i));
            if (decisions_.of(id) == Way::Map) {
                add(map_region(id), {id});
            } else if (decisions_.of(id) == Way::Anchor && !decisions_.anchor[i].valid()) {
                add_anchor(id);
            }
        }
        return std::move(drafts_);
    }

private:
    [[nodiscard]] Expr finished(const Expr& expr) const {
        return numerics_ == Numerics::Fused ? widened(expr) : expr;
    }

    void add(RegionBody body, std::vector<ValueId> values) {
        std::sort(values.begin(), values.end());
        const Source& source = graph_[values.back()].source;
        const std::string& place = source.module.empty() ? source.op : source.module;
        drafts_.push_back(
            {{fmt::format("{}#{}", place, values.back().value), std::move(body)}, std::move(values)});
    }

    /// One expression that holds a value (as its last node) and the indirect coordinates of its store.
    [[nodiscard]] Store make_store(Access target, const Expr& value,
                                   const std::vector<Expr>& coordinates) const {
        Store store;
        store.target = std::move(target);
        for (const Expr& coordinate : coordinates) {
            store.indices.push_back(copy_into(store.expr, coordinate, coordinate.root()));
        }
        const std::int32_t result = copy_into(store.expr, value, value.root());
        if (result != store.expr.root()) {
            // The value is also a coordinate: repeat it, since the result is the last node.
            const DType type = store.expr.nodes[static_cast<std::size_t>(result)].type;
            store.expr.apply(Op::Cast, type, {result});
        }
        return store;
    }

    /// The store of a Pointwise or Update value, seen through `view` (into its row-major space) and with the loads of
    /// `accumulators` replaced by Acc nodes.
    [[nodiscard]] Store store_of(ValueId id, const IndexMap* view,
                                 const std::vector<ValueId>& accumulators) const {
        const Node& node = graph_[id];
        const auto* update = std::get_if<Update>(&node.op);
        const Shape& space = update != nullptr ? update->space : node.type.shape;
        const Expr& whole = update != nullptr ? update->expr : std::get<Pointwise>(node.op).expr;
        const auto seen = [&](std::int32_t root) {
            Expr expr = with_accumulators(expansion_.expanded(extracted(whole, root)), accumulators, id);
            if (view != nullptr) {
                auto through = through_view(expr, *view, space);
                if (!through) throw NotAnEpilogue{id};
                expr = std::move(*through);
            }
            return finished(expr);
        };
        Access target = update != nullptr ? update->target : whole_access(id, node.type);
        if (view != nullptr) {
            auto through = through_view(target, *view, space);
            if (!through) throw NotAnEpilogue{id};
            target = std::move(*through);
        }
        std::vector<Expr> coordinates;
        if (update != nullptr) {
            for (std::int32_t index : update->indices) coordinates.push_back(seen(index));
        }
        target.source = id.value;
        return make_store(std::move(target), seen(whole.root()), coordinates);
    }

    [[nodiscard]] Expr with_accumulators(const Expr& expr, const std::vector<ValueId>& accumulators,
                                         ValueId id) const {
        if (accumulators.empty()) return expr;
        return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            if (expr.nodes[i].op != Op::Load) return std::nullopt;
            const Access& access = expr.accesses[static_cast<std::size_t>(expr.nodes[i].integer)];
            const auto found = std::find(accumulators.begin(), accumulators.end(), ValueId(access.source));
            if (found == accumulators.end()) return std::nullopt;
            if (!access.indirect.empty() || !is_linear_identity(access.map, volume(access.map.shape()))) {
                throw NotAnEpilogue{id};
            }
            const auto number = static_cast<int>(found - accumulators.begin());
            return out.cast(out.acc(number, accumulator_type(*found)), access.type);
        });
    }

    [[nodiscard]] DType accumulator_type(ValueId anchor) const {
        return compute_type(graph_[anchor].type.dtype);
    }

    [[nodiscard]] RegionBody map_region(ValueId id) const {
        const auto* update = std::get_if<Update>(&graph_[id].op);
        return MapRegion{update != nullptr ? update->space : graph_[id].type.shape,
                         {store_of(id, nullptr, {})}};
    }

    void add_anchor(ValueId id) {
        if (std::holds_alternative<Attention>(graph_[id].op)) return add(attention_region(id), {id});
        std::vector<ValueId> accumulators{id};
        std::vector<ValueId> epilogue;
        for (ValueId member : members_[id.index()]) {
            (decisions_.of(member) == Way::Anchor ? accumulators : epilogue).push_back(member);
        }
        std::sort(accumulators.begin(), accumulators.end());
        std::vector<ValueId> values = accumulators;
        values.insert(values.end(), epilogue.begin(), epilogue.end());
        if (decisions_.scored[id.index()]) return add(scored_region(id, epilogue), std::move(values));
        const auto* reduce = std::get_if<Reduce>(&graph_[id].op);
        add(reduce != nullptr ? reduce_region(id, *reduce, accumulators, epilogue)
                              : matmul_region(accumulators, epilogue),
            std::move(values));
    }

    /// Is `anchor` read by anything but the values that its own region computes from the accumulator?
    [[nodiscard]] bool is_stored(ValueId anchor, const std::vector<ValueId>& epilogue) const {
        const auto in_epilogue = [&](ValueId v) {
            return std::find(epilogue.begin(), epilogue.end(), v) != epilogue.end();
        };
        const bool is_output = std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                           [&](const Output& output) { return output.value == anchor; });
        if (is_output) return true;
        std::vector<ValueId> open = readers_[anchor.index()];
        while (!open.empty()) {
            const ValueId reader = open.back();
            open.pop_back();
            if (in_epilogue(reader)) continue;
            if (decisions_.of(reader) != Way::Inline) return true;
            const auto& next = readers_[reader.index()];
            open.insert(open.end(), next.begin(), next.end());
        }
        return false;
    }

    /// Stores of a region whose accumulator has the coordinates of `view`: its own results first.
    [[nodiscard]] std::vector<Store> stores(const IndexMap& view, const std::vector<ValueId>& accumulators,
                                            const std::vector<ValueId>& epilogue) const {
        std::vector<Store> result;
        for (std::size_t j = 0; j < accumulators.size(); ++j) {
            const ValueId id = accumulators[j];
            if (!is_stored(id, epilogue)) continue;
            Store store;
            store.target = {id.value, graph_[id].type.dtype, view, {}};
            store.expr.acc(static_cast<int>(j), accumulator_type(id));
            result.push_back(std::move(store));
        }
        for (ValueId id : epilogue) result.push_back(store_of(id, &view, accumulators));
        return result;
    }

    [[nodiscard]] RegionBody reduce_region(ValueId id, const Reduce& reduce,
                                           const std::vector<ValueId>& accumulators,
                                           const std::vector<ValueId>& epilogue) const {
        ReduceRegion region;
        region.space = graph_[id].type.shape;
        region.kept = static_cast<std::int32_t>(region.space.size());
        region.reductions = {{reduce.op, finished(expansion_.expanded(reduce.term))}};
        region.ragged = reduce.ragged;
        IndexMap view = identity_map(region.space);
        for (std::int64_t extent : reduce.extents) {
            region.space.push_back(extent);
            view.dims.push_back({atom(extent, 0)});
            if (!region.ragged) continue;
            region.ragged->begin.map.dims.push_back({atom(extent, 0)});
            region.ragged->end.map.dims.push_back({atom(extent, 0)});
        }
        region.stores = stores(view, accumulators, epilogue);
        return region;
    }

    [[nodiscard]] RegionBody matmul_region(const std::vector<ValueId>& accumulators,
                                           const std::vector<ValueId>& epilogue) const {
        const auto& first = std::get<Contract>(graph_[accumulators.front()].op);
        MatMulRegion region;
        region.space = first.space;
        region.a_type = first.a.type;
        Prologue prologue = make_prologue(expansion_.expanded(first.a), first.space,
                                          [&](std::int32_t source) { return expansion_.reduction(source); });
        for (RowStat& stat : prologue.stats) {
            region.stats.push_back({one_column(finished(stat.term)), one_column(finished(stat.finish))});
        }
        region.a = one_column(finished(prologue.a));
        region.ragged = first.ragged;
        if (region.ragged) {
            for (Access* bound : {&region.ragged->begin, &region.ragged->end})
                bound->map.dims[2] = {atom(1, 0)};
        }
        for (ValueId id : accumulators) region.weights.push_back(std::get<Contract>(graph_[id].op).b);
        region.streamed =
            std::all_of(region.weights.begin(), region.weights.end(),
                        [&](const Access& weight) { return is_streamable(weight, region.space); });
        if (product_kind(region) == abi::ProductKind::Rows && !rows_fit(region)) region.streamed = false;
        const auto [batch, m, n, k] = region.space;
        const IndexMap view{{{atom(batch, m * n)}, {atom(m, n)}, {atom(n, 1)}, {atom(k, 0)}}, 0};
        region.stores = stores(view, accumulators, epilogue);
        scale_at_the_end(region);
        return region;
    }

    [[nodiscard]] RegionBody scored_region(ValueId id, const std::vector<ValueId>& epilogue) const {
        auto draft = scored_draft(graph_, decisions_, expansion_, id, machine_);
        ensure(draft.has_value(), "a sum over scores is of another form");
        ScoredRegion region = std::move(draft->region);
        for (ScoredSum& sum : region.sums) sum.weight = finished(sum.weight);
        region.stores = stores(draft->view, {id}, epilogue);
        return region;
    }

    /// What only scales whole rows of the left side scales their sums instead: it need not be known before the product.
    /// That saves a barrier between the warps of a worker; a worker that is one thread has none to save. Unscaled rows might
    /// exceed F16.
    void scale_at_the_end(MatMulRegion& region) const {
        const bool has_warps = machine_.arch != "cpu";
        if (!has_warps || numerics_ != Numerics::Fused || region.a_type == DType::F16) return;
        auto split = split_scale(region.a);
        if (!split) return;
        region.a = std::move(split->rest);
        for (Store& store : region.stores) {
            std::vector<Expr> coordinates;
            for (std::int32_t index : store.indices) {
                coordinates.push_back(with_scale(extracted(store.expr, index), split->scale));
            }
            store = make_store(store.target, with_scale(store.expr, split->scale), coordinates);
        }
    }

    /// The left side is the same for every column: it is evaluated at n = 0.
    [[nodiscard]] static Expr one_column(Expr expr) {
        for (Access& access : expr.accesses) access.map.dims[2] = {atom(1, 0)};
        return expr;
    }

    /// Are the rows of n contiguous, one after the other, aligned, and constant during a launch?
    [[nodiscard]] bool is_streamable(const Access& weight, const std::array<std::int64_t, 4>& space) const {
        const auto* input = std::get_if<Input>(&graph_[ValueId(weight.source)].op);
        if (input == nullptr || (input->role != Role::Parameter && input->role != Role::Constant))
            return false;
        const auto [batch, m, n, k] = space;
        const auto size = static_cast<std::int64_t>(size_of(weight.type));
        const IndexMap rows = normalized(weight.map);
        const auto is = [&](std::size_t dim, std::int64_t extent, std::int64_t stride) {
            return rows.dims[dim].size() == 1 && !rows.dims[dim][0].masked() &&
                   (extent == 1 || rows.dims[dim][0] == atom(extent, stride));
        };
        return batch == 1 && is(2, n, k) && is(3, k, 1) && k * size % kBulkAlignment == 0 &&
               rows.offset * size % kBulkAlignment == 0;
    }

    /// Panels are cut along k; whole rows are not.
    [[nodiscard]] bool rows_fit(const MatMulRegion& region) const {
        const auto size = static_cast<std::int64_t>(size_of(region.weights.front().type));
        return region.space[3] * size <= machine_.shared_bytes / kMostOfShared;
    }

    [[nodiscard]] RegionBody attention_region(ValueId id) const {
        const auto& op = std::get<Attention>(graph_[id].op);
        const auto [batch, heads, queries, context, depth] = op.space;
        const auto with_dim = [](Expr expr, std::size_t at, std::int64_t extent) {
            for (Access& access : expr.accesses) access.map = inserted_dim(access.map, at, extent);
            for (ExprNode& node : expr.nodes) {
                if (node.op == Op::Index && node.integer >= static_cast<std::int64_t>(at)) ++node.integer;
            }
            return expr;
        };
        AttentionRegion region;
        region.space = op.space;
        region.splits = std::max<std::int64_t>(op.splits, 1);
        region.scale = op.scale;
        region.query = with_dim(finished(expansion_.expanded(op.query)), 3, context);
        region.key = op.key;
        region.key.map = inserted_dim(op.key.map, 2, queries);
        region.value = op.value;
        region.value.map = inserted_dim(op.value.map, 2, queries);
        region.group = heads_per_row(op);
        const auto fresh = [&](const Expr& expr) {
            return expr.empty() ? Expr{} : with_dim(finished(expansion_.expanded(expr)), 2, queries);
        };
        region.fresh = {fresh(op.fresh.row), fresh(op.fresh.key), fresh(op.fresh.value)};
        if (!op.mask.empty()) {
            const Expr mask = finished(expansion_.expanded(op.mask));
            const LengthBound bound = length_bound(mask, {batch, heads, queries, context});
            if (!bound.length.empty()) region.length = with_dim(bound.length, 4, depth);
            if (!bound.exact) region.mask = with_dim(mask, 4, depth);
        }
        const std::int64_t width = op.splits > 1 ? depth + 2 : depth;
        region.out = {id.value,
                      graph_[id].type.dtype,
                      {{{atom(batch, heads * queries * width)},
                        {atom(heads, queries * width)},
                        {atom(queries, width)},
                        {atom(context, 0)},
                        {atom(depth, 1)}},
                       0},
                      {}};
        return region;
    }

    const Graph& graph_;
    const Decisions& decisions_;
    const Machine& machine_;
    Numerics numerics_;
    Expansion expansion_;
    std::vector<std::vector<ValueId>> members_;  ///< by anchor: merged contractions and epilogue values
    std::vector<std::vector<ValueId>> readers_;
    std::vector<DraftRegion> drafts_;
};

}  // namespace

std::vector<DraftRegion> build_regions(const Graph& graph, const Decisions& decisions, const Machine& machine,
                                       Numerics numerics) {
    return RegionBuilder(graph, decisions, machine, numerics).run();
}

}  // namespace stretto
