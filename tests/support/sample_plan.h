#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/machine.h"
#include "schedule/loads.h"

namespace stretto::sample {

/// Builds a plan by hand: one task a region, all on one worker, in order.
class PlanBuilder {
public:
    BufferId buffer(std::string name, DType dtype, Shape shape, BufferRole role) {
        plan_.graph.regions.buffers.push_back({std::move(name), dtype, std::move(shape), role, nullptr});
        return BufferId(static_cast<std::int64_t>(plan_.graph.regions.buffers.size()) - 1);
    }

    /// Makes all arena buffers so far travel as words.
    void tag_arena() {
        for (Buffer& buffer : plan_.graph.regions.buffers) buffer.tagged = buffer.role == BufferRole::Arena;
    }

    /// `strides` by dimension of the region's space.
    [[nodiscard]] Access access(BufferId buffer, const Shape& space, const Shape& strides) const {
        Access out{buffer.value, plan_.graph.regions[buffer].dtype, {}, {}};
        for (std::size_t d = 0; d < space.size(); ++d) out.map.dims.push_back({atom(space[d], strides[d])});
        return out;
    }

    void add(std::string name, RegionBody body, std::array<Range, 4> tile) {
        const RegionId region(static_cast<std::int64_t>(plan_.graph.regions.regions.size()));
        const TaskId task(static_cast<std::int64_t>(plan_.graph.tasks.size()));
        plan_.graph.regions.regions.push_back({std::move(name), std::move(body)});
        plan_.graph.tasks.push_back({region, tile, {}, {}, {}});
        plan_.graph.tasks_of.push_back({task.value, task.value + 1});
        worker_.queue.push_back({task, {}, {}});
    }

    /// Arena buffers one after the other.
    [[nodiscard]] Plan finish(const Machine& machine) {
        for (const Step& step : worker_.queue)
            append_loads(plan_.graph, step.task, machine.consumer_warps, worker_.stream);
        plan_.machine = machine.name;
        plan_.workers = {worker_};
        plan_.shared = {machine.consumer_warps, 4, 0, 0};
        for (const Load& load : worker_.stream) {
            plan_.shared.slot_bytes = std::max(plan_.shared.slot_bytes, slot_bytes(load));
        }
        for (const Task& task : plan_.graph.tasks) {
            const std::int64_t scratch =
                scratch_bytes(plan_.graph.regions[task.region], task.tile, machine.consumer_warps);
            plan_.shared.scratch_bytes = std::max(plan_.shared.scratch_bytes, scratch);
        }
        for (const Buffer& buffer : plan_.graph.regions.buffers) {
            const bool arena = buffer.role == BufferRole::Arena;
            plan_.offsets.push_back(arena ? plan_.arena_bytes : -1);
            if (arena) plan_.arena_bytes += (buffer.size_bytes() + 255) / 256 * 256;
        }
        return plan_;
    }

private:
    Plan plan_;
    Worker worker_;
};

/// x * x over [rows, columns].
inline MapRegion square(PlanBuilder& plan, BufferId x, BufferId y, const Shape& space) {
    const Shape strides = row_major_strides(space);
    Store store{plan.access(y, space, strides), {}, {}};
    const auto value = store.expr.load(plan.access(x, space, strides));
    store.expr.apply(Op::Mul, {value, value});
    return {space, {store}};
}

inline ReduceRegion row_sums(PlanBuilder& plan, BufferId x, BufferId sums, const Shape& space) {
    ReduceRegion region{space, 1, {{}}, {}, {}, {}};
    Expr& term = region.reductions.front().term;
    term.load(plan.access(x, space, row_major_strides(space)));
    Store store{plan.access(sums, space, {1, 0}), {}, {}};
    store.expr.acc(0, term.type());
    region.stores.push_back(store);
    return region;
}

/// y = silu(norm(x) gate') * (norm(x) up'), the norm by the root mean square of a row.
inline MatMulRegion gated(PlanBuilder& plan, BufferId x, BufferId gate, BufferId up, BufferId y,
                          std::array<std::int64_t, 4> extents) {
    const Shape space(extents.begin(), extents.end());
    const auto [batch, rows, columns, depth] = extents;
    MatMulRegion region;
    region.space = extents;
    region.streamed = true;
    const Access left = plan.access(x, space, {rows * depth, depth, 0, 1});
    RowStat stat;
    const auto term = stat.term.cast(stat.term.load(left), DType::F32);
    stat.term.apply(Op::Mul, {term, term});
    const auto mean = stat.finish.apply(
        Op::Div, {stat.finish.acc(0), stat.finish.constant(static_cast<double>(depth), DType::F32)});
    stat.finish.apply(Op::Rsqrt,
                      {stat.finish.apply(Op::Add, {mean, stat.finish.constant(1e-5, DType::F32)})});
    region.stats.push_back(stat);
    region.a.apply(Op::Mul, {region.a.cast(region.a.load(left), DType::F32), region.a.stat(0)});
    region.weights = {plan.access(gate, space, {0, 0, depth, 1}), plan.access(up, space, {0, 0, depth, 1})};
    Store store{plan.access(y, space, {rows * columns, columns, 1, 0}), {}, {}};
    const auto opened = store.expr.acc(0);
    const auto silu = store.expr.apply(Op::Mul, {opened, store.expr.apply(Op::Sigmoid, {opened})});
    store.expr.apply(Op::Mul, {silu, store.expr.acc(1)});
    region.stores.push_back(store);
    return region;
}

/// y = x w with w[k, n].
inline MatMulRegion direct(PlanBuilder& plan, BufferId x, BufferId w, BufferId y,
                           std::array<std::int64_t, 4> extents) {
    const Shape space(extents.begin(), extents.end());
    const auto [batch, rows, columns, depth] = extents;
    MatMulRegion region;
    region.space = extents;
    region.a_type = plan.access(x, {}, {}).type;
    region.a.load(plan.access(x, space, {rows * depth, depth, 0, 1}));
    region.weights = {plan.access(w, space, {0, 0, 1, columns})};
    Store store{plan.access(y, space, {rows * columns, columns, 1, 0}), {}, {}};
    store.expr.acc(0, region.a_type);
    region.stores.push_back(store);
    return region;
}

/// y = x w, a product of many rows, with x[m, k] and w[n, k], or with the dimensions of both exchanged.
inline MatMulRegion tiled(PlanBuilder& plan, BufferId x, BufferId w, BufferId y,
                          std::array<std::int64_t, 4> extents, ProductTile tile, bool columns = false) {
    const auto [batch, m, n, k] = extents;
    MatMulRegion region = direct(plan, x, w, y, extents);
    const Shape space(extents.begin(), extents.end());
    region.tile = tile;
    region.a = {};
    region.a.load(plan.access(x, space, columns ? Shape{0, 1, 0, m} : Shape{0, k, 0, 1}));
    region.weights = {plan.access(w, space, columns ? Shape{0, 0, 1, n} : Shape{0, 0, k, 1})};
    return region;
}

/// Query [B, H, Q, D] against key and value [B, H / group, S, D]; row s attends where s < length. Several splits give partial
/// results.
inline AttentionRegion attention(PlanBuilder& plan, BufferId query, BufferId key, BufferId value,
                                 BufferId length, BufferId partial, std::array<std::int64_t, 5> extents,
                                 std::int64_t group, std::int64_t splits) {
    const Shape space(extents.begin(), extents.end());
    const auto [batch, heads, queries, context, depth] = extents;
    AttentionRegion region;
    region.space = extents;
    region.group = group;
    region.splits = splits;
    region.scale = 0.125;
    region.query.load(plan.access(query, space, {heads * queries * depth, queries * depth, depth, 0, 1}));
    region.key = plan.access(key, space, {heads / group * context * depth, 0, 0, depth, 1});
    region.key.map.dims[1] = {atom(heads / group, context * depth), atom(group, 0)};
    region.value = region.key;
    region.value.source = value.value;
    region.length.load(plan.access(length, space, {0, 0, 0, 0, 0}));
    region.mask.apply(Op::Lt,
                      {region.mask.index(3), region.mask.load(plan.access(length, space, {0, 0, 0, 0, 0}))});
    const std::int64_t width = splits > 1 ? depth + 2 : depth;
    region.out = plan.access(partial, space, {heads * queries * width, queries * width, width, 0, 1});
    return region;
}

/// A program with every task kind, `layers` times, whose intermediates travel as plain elements or as words.
inline Plan every_kind(const Machine& machine, int layers, bool words = false) {
    PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::BF16, {1, 576}, BufferRole::Input);
    const BufferId position = plan.buffer("position", DType::I64, {1}, BufferRole::Input);
    BufferId out = x;
    for (int i = 0; i < layers; ++i) {
        const std::string layer = "layers." + std::to_string(i) + ".";
        const auto parameter = [&](const char* name, DType type, Shape shape) {
            return plan.buffer(layer + name, type, std::move(shape), BufferRole::Parameter);
        };
        const auto arena = [&](const char* name, DType type, Shape shape) {
            return plan.buffer(layer + name, type, std::move(shape), BufferRole::Arena);
        };
        const BufferId gate = parameter("gate", DType::BF16, {16, 576});
        const BufferId up = parameter("up", DType::BF16, {16, 576});
        const BufferId hidden = arena("hidden", DType::F32, {1, 16});
        plan.add(layer + "mlp.gate_up#" + std::to_string(i),
                 gated(plan, out, gate, up, hidden, {1, 1, 16, 576}), {Range{0, 1}, {0, 1}, {0, 16}, {0, 0}});
        const BufferId wide = arena("wide", DType::F32, {1, 576});
        plan.add(layer + "mlp.wide",
                 direct(plan, hidden, parameter("w", DType::F32, {16, 576}), wide, {1, 1, 576, 16}),
                 {Range{0, 1}, {0, 1}, {0, 576}, {0, 0}});
        const BufferId partial = arena("partial", DType::F32, {4, 1, 9, 1, 66});
        plan.add(layer + "attention",
                 attention(plan, wide, parameter("k", DType::BF16, {1, 3, 128, 64}),
                           parameter("v", DType::BF16, {1, 3, 128, 64}), position, partial,
                           {1, 9, 1, 128, 64}, 3, 4),
                 {Range{0, 1}, {0, 1}, {0, 1}, {0, 1}});
        plan.add(layer + "attention_f32",
                 attention(plan, wide, parameter("k32", DType::F32, {1, 3, 128, 64}),
                           parameter("v32", DType::F32, {1, 3, 128, 64}), position,
                           arena("partial_f32", DType::F32, {4, 1, 9, 1, 66}), {1, 9, 1, 128, 64}, 3, 4),
                 {Range{0, 1}, {0, 1}, {0, 1}, {0, 1}});
        plan.add(layer + "sums", row_sums(plan, partial, arena("sums", DType::F32, {36}), {36, 66}),
                 {Range{0, 36}, {0, 0}, {0, 0}, {0, 0}});
        const BufferId next = arena("next", DType::BF16, {1, 576});
        plan.add(layer + "square", square(plan, wide, next, {1, 576}),
                 {Range{0, 576}, {0, 0}, {0, 0}, {0, 0}});
        out = next;
    }
    if (words) plan.tag_arena();
    return plan.finish(machine);
}

}  // namespace stretto::sample
