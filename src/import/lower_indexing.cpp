#include <limits>
#include <utility>

#include "graph/promote.h"
#include "import/call.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;
using Indices = std::vector<std::optional<Tensor>>;

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

Tensors embedding(Call& c) { return {c.b.index(c.tensor("weight"), {c.tensor("indices")})}; }

Tensors index(Call& c) { return {c.b.index(c.tensor("self"), c.optional_tensors("indices"))}; }

Tensors index_put(Call& c) {
    const Tensor x = c.tensor("self"), values = c.tensor("values");
    const Indices indices = c.optional_tensors("indices");
    return {c.flag("accumulate", false) ? c.b.index_add(x, indices, values)
                                        : c.b.index_put(x, indices, values)};
}

/// Whole dimensions up to `dim`, then a list of positions.
Indices along(Call& c, const Tensor& x) {
    const int dim = c.dim("dim");
    const int rank = static_cast<int>(x.rank());
    if (dim < -rank || dim >= rank) c.fail("it indexes a dimension that its operand does not have");
    Indices indices(static_cast<std::size_t>(dim < 0 ? dim + rank : dim));
    const Tensor positions = c.tensor("index");
    indices.emplace_back(positions.rank() == 0 ? c.b.unsqueeze(positions, 0) : positions);
    return indices;
}

Tensors index_select(Call& c) {
    const Tensor x = c.tensor("self");
    return {c.b.index(x, along(c, x))};
}

Tensors index_copy(Call& c) {
    const Tensor x = c.tensor("self");
    return {c.b.index_put(x, along(c, x), c.tensor("source"))};
}

Tensors gather(Call& c) { return {c.b.gather(c.tensor("self"), c.dim("dim"), c.tensor("index"))}; }

/// For each dimension of `index` a tensor of positions: `index` itself for `dim`, the own coordinate for others.
Indices pointwise_indices(Call& c, const Tensor& x, const Tensor& index) {
    const int rank = static_cast<int>(x.rank());
    const int dim = c.dim("dim") < 0 ? c.dim("dim") + rank : c.dim("dim");
    if (dim < 0 || dim >= rank || index.rank() != x.rank()) c.fail("the index does not fit the tensor");
    Indices indices;
    for (int d = 0; d < rank; ++d) {
        if (d == dim) {
            indices.emplace_back(index);
            continue;
        }
        indices.emplace_back(
            c.b.pointwise({index}, DType::I64, [&](Expr& e, const auto&) { return e.index(d); }));
    }
    return indices;
}

/// The part of `src` (or the number `value`) that the positions of `index` take.
Tensor scattered(Call& c, const Tensor& x, const Tensor& index) {
    if (!c.has("src")) return c.b.full(index.shape(), c.number("value"), x.dtype);
    Tensor part = c.tensor("src");
    for (std::size_t d = 0; d < index.rank(); ++d) {
        part = c.b.slice(part, static_cast<int>(d), 0, index.shape()[d]);
    }
    return part;
}

/// Few positions in each whole row are comparisons, which join what computes and what reads the tensor.
bool is_short_chain(Call& c, const Tensor& x, const Tensor& index) {
    const std::size_t d =
        static_cast<std::size_t>(c.dim("dim") < 0 ? c.dim("dim") + static_cast<int>(x.rank()) : c.dim("dim"));
    Shape rows = x.shape();
    if (d >= rows.size() || index.rank() != rows.size() || index.shape()[d] > kLongestScatterChain)
        return false;
    rows[d] = index.shape()[d];
    return index.shape() == rows;
}

Tensors scatter(Call& c) {
    if (c.has("reduce")) c.fail("scatter with a reduction is not supported; use scatter_add");
    const Tensor x = c.tensor("self"), index = c.tensor("index");
    if (x.rank() == 0) return {c.b.cast(scattered(c, x, index), x.dtype)};
    if (is_short_chain(c, x, index)) return {c.b.scatter(x, c.dim("dim"), index, scattered(c, x, index))};
    return {c.b.index_put(x, pointwise_indices(c, x, index), scattered(c, x, index))};
}

Tensors scatter_add(Call& c) {
    const Tensor x = c.tensor("self"), index = c.tensor("index");
    return {c.b.index_add(x, pointwise_indices(c, x, index), scattered(c, x, index))};
}

Tensors index_add(Call& c) {
    const Tensor x = c.tensor("self");
    Tensor source = c.tensor("source");
    if (const double alpha = c.number("alpha", 1); alpha != 1) {
        source = c.b.apply(Op::Mul, {source, c.b.full({}, alpha, compute_type(source.dtype))}, source.dtype);
    }
    return {c.b.index_add(x, along(c, x), source)};
}

Tensors slice_scatter(Call& c) {
    return {c.b.slice_scatter(c.tensor("self"), c.tensor("src"), c.dim("dim", 0), c.integer("start", 0),
                              c.integer("end", kEnd), c.integer("step", 1))};
}

Tensors select_scatter(Call& c) {
    const Tensor x = c.tensor("self");
    const std::int64_t at = c.integer("index");
    const std::int64_t end = at == -1 ? kEnd : at + 1;
    return {c.b.slice_scatter(x, c.b.unsqueeze(c.tensor("src"), c.dim("dim")), c.dim("dim"), at, end)};
}

/// The functional form of copy_: the source, with the shape and the type of what it overwrites.
Tensors copy(Call& c) {
    const Tensor source = c.b.cast(c.tensor("src"), c.tensor("self").dtype);
    return {c.b.expand(source, c.tensor("self").shape())};
}

}  // namespace

const LoweringTable& indexing_lowerings() {
    static const LoweringTable table = {
        {"aten.embedding", embedding},
        {"aten.index", index},
        {"aten._unsafe_index", index},
        {"aten.index_put", index_put},
        {"aten._unsafe_index_put", index_put},
        {"aten.index_select", index_select},
        {"aten.index_copy", index_copy},
        {"aten.slice_scatter", slice_scatter},
        {"aten.select_scatter", select_scatter},
        {"aten.copy", copy},
        {"aten.gather", gather},
        {"aten.scatter", scatter},
        {"aten.scatter_add", scatter_add},
        {"aten.index_add", index_add},
    };
    return table;
}

}  // namespace stretto
