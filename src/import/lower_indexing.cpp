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
    if (c.flag("accumulate", false)) c.fail("accumulate=True is not supported");
    return {c.b.index_put(c.tensor("self"), c.optional_tensors("indices"), c.tensor("values"))};
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
        {"aten.embedding", embedding},           {"aten.index", index},
        {"aten._unsafe_index", index},           {"aten.index_put", index_put},
        {"aten._unsafe_index_put", index_put},   {"aten.index_select", index_select},
        {"aten.index_copy", index_copy},         {"aten.slice_scatter", slice_scatter},
        {"aten.select_scatter", select_scatter}, {"aten.copy", copy},
    };
    return table;
}

}  // namespace stretto
