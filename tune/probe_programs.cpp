#include "tune/probe_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "abi/abi.h"
#include "fuse/product_tile.h"

namespace stretto {
namespace {

constexpr std::int64_t kLanes = 32;

class Regions {
public:
    BufferId buffer(BufferRole role, DType type, Shape shape) {
        const BufferId id(static_cast<std::int64_t>(graph_.buffers.size()));
        graph_.buffers.push_back({fmt::format("probe.{}", id.value), type, std::move(shape), role, nullptr});
        return id;
    }
    [[nodiscard]] Access access(BufferId buffer, IndexMap map) const {
        return {buffer.value, graph_[buffer].dtype, std::move(map), {}};
    }
    [[nodiscard]] Access whole(BufferId buffer) const {
        return access(buffer, identity_map(graph_[buffer].shape));
    }
    void add(RegionBody body) {
        graph_.regions.push_back({fmt::format("probe#{}", graph_.regions.size()), std::move(body)});
    }
    [[nodiscard]] RegionGraph take() { return std::move(graph_); }

private:
    RegionGraph graph_;
};

/// A row for each worker: what `tile` gives to one task.
Shape rows_of(const Machine& machine, std::int64_t rounds) {
    return {machine.workers, machine.consumer_warps * kLanes * rounds};
}

IndexMap reversed_rows(const Shape& shape) {
    return {{{atom(shape[0], -shape[1])}, {atom(shape[1], 1)}}, (shape[0] - 1) * shape[1]};
}

/// Maps of the coordinates [1, 1, n, k] of a product of one row.
IndexMap along_n(std::int64_t n, std::int64_t k, std::int64_t stride) {
    return {{{atom(1, 0)}, {atom(1, 0)}, {atom(n, stride)}, {atom(k, 0)}}, 0};
}
IndexMap along_k(std::int64_t n, std::int64_t k) {
    return {{{atom(1, 0)}, {atom(1, 0)}, {atom(n, 0)}, {atom(k, 1)}}, 0};
}
IndexMap over_weight(std::int64_t n, std::int64_t k, std::int64_t stride) {
    return {{{atom(1, 0)}, {atom(1, 0)}, {atom(n, stride)}, {atom(k, 1)}}, 0};
}

}  // namespace

RegionGraph relay(const Machine& machine, Relay from, std::int64_t length, std::int64_t reach) {
    Regions regions;
    const Shape shape = rows_of(machine, 1);
    std::vector<BufferId> written{regions.buffer(BufferRole::Input, DType::F32, shape)};
    for (std::int64_t i = 0; i < length; ++i) {
        const BufferRole role = i + 1 == length ? BufferRole::Output : BufferRole::Arena;
        const BufferId next = regions.buffer(role, DType::F32, shape);
        Store store{regions.whole(next), {}, {}};
        const IndexMap map = from == Relay::OwnWorker ? identity_map(shape) : reversed_rows(shape);
        std::int32_t sum = store.expr.constant(1, DType::F32);
        for (std::int64_t back = 1; back <= std::min(reach, i + 1); ++back) {
            const BufferId read = written[written.size() - static_cast<std::size_t>(back)];
            sum = store.expr.apply(Op::Add, {sum, store.expr.load(regions.access(read, map))});
        }
        regions.add(MapRegion{shape, {std::move(store)}});
        written.push_back(next);
    }
    return regions.take();
}

RegionGraph overlapping_relay(const Machine& machine, std::int64_t length, std::int64_t rows) {
    Regions regions;
    const Shape shape = rows_of(machine, 1);
    BufferId previous = regions.buffer(BufferRole::Input, DType::F32, shape);
    for (std::int64_t i = 0; i < length; ++i) {
        const BufferRole role = i + 1 == length ? BufferRole::Output : BufferRole::Arena;
        const BufferId next = regions.buffer(role, DType::F32, shape);
        Store store{regions.whole(next), {}, {}};
        std::int32_t sum = store.expr.constant(1, DType::F32);
        for (std::int64_t row = 1; row <= std::min(rows, shape[0] - 1); ++row) {
            const IndexMap map{{{Atom{shape[0], shape[1], 0, shape[0] - row}}, {atom(shape[1], 1)}},
                               row * shape[1]};
            sum = store.expr.apply(Op::Add, {sum, store.expr.load(regions.access(previous, map))});
        }
        regions.add(MapRegion{shape, {std::move(store)}});
        previous = next;
    }
    return regions.take();
}

RegionGraph separate_maps(const Machine& machine, std::int64_t length, std::int64_t rounds,
                          std::int64_t operations) {
    Regions regions;
    const Shape shape = rows_of(machine, rounds);
    for (std::int64_t i = 0; i < length; ++i) {
        Store store{regions.whole(regions.buffer(BufferRole::Output, DType::F32, shape)), {}, {}};
        Expr& expr = store.expr;
        const std::int32_t factor = expr.constant(0.75, DType::F32);
        std::int32_t value = operations > 0 ? expr.cast(expr.index(1), DType::F32) : factor;
        for (std::int64_t j = 0; j < operations; ++j) {
            value = expr.apply(j % 2 == 0 ? Op::Mul : Op::Add, {value, factor});
        }
        regions.add(MapRegion{shape, {std::move(store)}});
    }
    return regions.take();
}

namespace {

RegionGraph products(const Machine& machine, Rows rows, std::int64_t length, std::int64_t panels,
                     bool streamed) {
    Regions regions;
    const std::int64_t width = abi::round_up(machine.workers * panels * abi::kPanelRows, abi::kChunk);
    BufferId row;
    for (std::int64_t i = 0; i < length; ++i) {
        const bool last = i + 1 == length;
        const bool chained = rows == Rows::Chained;
        if (!chained || i == 0) row = regions.buffer(BufferRole::Input, DType::F32, {1, width});
        const BufferId weight =
            regions.buffer(BufferRole::Parameter, DType::BF16, {streamed ? width : 1, width});
        const BufferRole role = chained && !last ? BufferRole::Arena : BufferRole::Output;
        const BufferId result = regions.buffer(role, DType::F32, {1, width});
        MatMulRegion product;
        product.space = {1, 1, width, width};
        product.a.load(regions.access(row, along_k(width, width)));
        product.a_type = DType::BF16;
        product.streamed = streamed;
        product.weights = {regions.access(weight, over_weight(width, width, streamed ? width : 0))};
        Store store{regions.access(result, along_n(width, width, 1)), {}, {}};
        // Bounded, so that a chain never leaves the range of normal numbers.
        store.expr.apply(Op::Tanh, {store.expr.acc(0)});
        product.stores = {std::move(store)};
        regions.add(std::move(product));
        row = result;
    }
    return regions.take();
}

}  // namespace

RegionGraph streamed_products(const Machine& machine, Rows rows, std::int64_t length, std::int64_t panels) {
    return products(machine, rows, length, panels, true);
}

RegionGraph wide_products(const Machine& machine, Rows rows, std::int64_t length, std::int64_t panels) {
    return products(machine, rows, length, panels, false);
}

RegionGraph square_product(const Machine& machine, std::int64_t size, std::int64_t depth) {
    Regions regions;
    const BufferId left = regions.buffer(BufferRole::Input, DType::BF16, {size, depth});
    const BufferId weight = regions.buffer(BufferRole::Parameter, DType::BF16, {size, depth});
    const BufferId result = regions.buffer(BufferRole::Output, DType::F32, {size, size});
    MatMulRegion product;
    product.space = {1, size, size, depth};
    product.a.load(
        regions.access(left, {{{atom(1, 0)}, {atom(size, depth)}, {atom(size, 0)}, {atom(depth, 1)}}, 0}));
    product.a_type = DType::BF16;
    product.weights = {
        regions.access(weight, {{{atom(1, 0)}, {atom(size, 0)}, {atom(size, depth)}, {atom(depth, 1)}}, 0})};
    Store store{
        regions.access(result, {{{atom(1, 0)}, {atom(size, size)}, {atom(size, 1)}, {atom(depth, 0)}}, 0}),
        {},
        {}};
    store.expr.acc(0);
    product.stores = {std::move(store)};
    regions.add(std::move(product));
    RegionGraph graph = regions.take();
    cut_products(graph, machine);
    return graph;
}

}  // namespace stretto
