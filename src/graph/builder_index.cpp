#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/indexing.h"
#include "graph/promote.h"

namespace stretto {
namespace {

/// Does the map hit every element of its value exactly once? Then a functional update through the view is an
/// update of the value.
bool is_bijection(const IndexMap& map, const Shape& value) {
    return volume(map.shape()) == volume(value) && is_injective(map);
}

/// Is the value one constant everywhere?
bool is_fill(const Node& node) {
    const auto* op = std::get_if<Pointwise>(&node.op);
    return op != nullptr && op->expr.nodes.size() == 1 && op->expr.nodes.front().op == Op::Const;
}

/// Can indirect coordinates take the indexed dimensions? Each must be one unmasked digit.
bool is_strided(const IndexMap& map, const std::vector<bool>& indexed) {
    for (std::size_t d = 0; d < map.dims.size(); ++d) {
        if (indexed[d] && (map.dims[d].size() != 1 || map.dims[d].front().masked())) return false;
    }
    return true;
}

/// The map of an index tensor (over the dimensions that the indices span) in the result's coordinates.
IndexMap index_map(IndexMap map, const Indexing& at) {
    for (std::size_t d = 0; d < at.shape.size(); ++d) {
        const bool spanned = d >= at.begin && d < at.begin + at.count;
        if (!spanned) map = inserted_dim(map, d, at.shape[d]);
    }
    return map;
}

}  // namespace

std::vector<Tensor> GraphBuilder::index_tensors(const Tensor& x,
                                                const std::vector<std::optional<Tensor>>& indices) const {
    if (indices.size() > x.rank()) {
        fail(fmt::format("{} indices for a tensor of shape {}", indices.size(), to_text(x.shape())));
    }
    std::vector<Tensor> given;
    for (const auto& index : indices) {
        if (!index) continue;
        if (is_float(index->dtype) || index->dtype == DType::Bool || index->dtype == DType::U8) {
            fail(fmt::format(
                "cannot index with a tensor of {}: the result's shape or position would depend on "
                "data; index with integers",
                name(index->dtype)));
        }
        given.push_back(*index);
    }
    if (given.empty()) fail("indexing needs at least one index tensor");
    const Shape spanned = common_shape(given);
    for (Tensor& index : given) index = broadcast(index, spanned);
    return given;
}

Tensor GraphBuilder::index(const Tensor& x, const std::vector<std::optional<Tensor>>& indices) {
    const std::vector<Tensor> given = index_tensors(x, indices);
    const std::vector<bool> indexed = indexed_dims(x, indices);
    const Tensor flat = {x.value, normalized(x.map), x.dtype};
    const Tensor source = is_strided(flat.map, indexed) ? flat : copied(x);
    Indexing at = indexing(source.map, indexed, given.front().shape());
    Expr expr;
    std::vector<std::int32_t> coordinates;
    for (const Tensor& index : given) {
        coordinates.push_back(expr.load(access({index.value, index_map(index.map, at), index.dtype})));
    }
    Access load = access({source.value, at.map, source.dtype});
    load.indirect = at.indirect;
    expr.load(std::move(load), coordinates);
    return add({{x.dtype, at.shape}, Pointwise{std::move(expr)}, {}});
}

Tensor GraphBuilder::updated(const Tensor& x, Update update, const Tensor& values) {
    Expr& expr = update.expr;
    std::int32_t value = expr.load(access(broadcast(values, update.space)));
    if (values.dtype != x.dtype) value = expr.cast(value, x.dtype);
    // The value must be the last node; where an index is the value too, a cast of its own stands for it.
    if (value != expr.root()) expr.nodes.push_back({Op::Cast, x.dtype, {value}, 0, 0});
    update.state = x.value;
    const Type type = graph_[x.value].type;
    const Tensor next = add({type, std::move(update), {}});
    return {next.value, x.map, x.dtype};
}

Tensor GraphBuilder::index_put(const Tensor& x, const std::vector<std::optional<Tensor>>& indices,
                               const Tensor& values) {
    const std::vector<Tensor> given = index_tensors(x, indices);
    const std::vector<bool> indexed = indexed_dims(x, indices);
    const Tensor flat = {x.value, normalized(x.map), x.dtype};
    const bool direct = is_bijection(flat.map, graph_[x.value].type.shape) && is_strided(flat.map, indexed);
    const Tensor state = direct ? flat : copied(x);
    Indexing at = indexing(state.map, indexed, given.front().shape());
    Update update;
    update.space = at.shape;
    for (const Tensor& index : given) {
        update.indices.push_back(
            update.expr.load(access({index.value, index_map(index.map, at), index.dtype})));
    }
    update.target = access({state.value, at.map, state.dtype});
    update.target.indirect = at.indirect;
    return updated(state, std::move(update), values);
}

Tensor GraphBuilder::slice_scatter(const Tensor& x, const Tensor& values, int dim, std::int64_t begin,
                                   std::int64_t end, std::int64_t step) {
    if (step == 1 && is_fill(graph_[x.value])) return within(x, values, dim, begin, end);
    const bool direct = is_bijection(x.map, graph_[x.value].type.shape);
    Tensor state = direct ? x : copied(x);
    Tensor part = slice(state, dim, begin, end, step);
    if (part.value != state.value) {
        state = copied(state);
        part = slice(state, dim, begin, end, step);
    }
    Update update;
    update.space = part.shape();
    update.target = access(part);
    return updated(state, std::move(update), values);
}

}  // namespace stretto
