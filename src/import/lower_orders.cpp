#include "graph/promote.h"
#include "import/call.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;
using Nodes = std::vector<std::int32_t>;

Tensors argmax(Call& c) {
    const Tensor x = c.tensor("self");
    if (!c.has("dim")) return {c.b.argmax(c.b.reshape(x, {-1}), 0, false)};
    return {c.b.argmax(x, c.dim("dim"), c.flag("keepdim", false))};
}

/// The largest or the smallest of all elements, of two tensors, or along a dimension with its position.
template <ReduceOp op>
Tensors extreme(Call& c) {
    const Tensor x = c.tensor("self");
    if (c.has("other")) {
        return {c.b.apply(op == ReduceOp::Max ? Op::Max : Op::Min, {x, c.tensor("other")}, c.dtype())};
    }
    if (!c.has("dim")) return {c.b.reduce(op, x, {}, false, c.dtype())};
    const bool keep_dim = c.flag("keepdim", false);
    const Tensor keys = op == ReduceOp::Max ? x : c.b.apply(Op::Neg, {x}, x.dtype);
    const Tensor at = c.b.argmax(keys, c.dim("dim"), true);
    const Tensor value = c.b.gather(x, c.dim("dim"), at);
    if (keep_dim || x.rank() == 0) return {value, at};
    return {c.b.squeeze(value, c.dim("dim")), c.b.squeeze(at, c.dim("dim"))};
}

Tensors sort(Call& c) {
    const Tensor x = c.tensor("self");
    const Tensor order = c.b.argsort(x, c.dim("dim", -1), c.flag("descending", false));
    return {c.b.gather(x, c.dim("dim", -1), order), order};
}

Tensors argsort(Call& c) {
    return {c.b.argsort(c.tensor("self"), c.dim("dim", -1), c.flag("descending", false))};
}

Tensors topk(Call& c) {
    const Tensor x = c.tensor("self");
    const int dim = c.dim("dim", -1);
    const Tensor order = c.b.argsort(x, dim, c.flag("largest", true));
    const Tensor first = x.rank() == 0 ? order : c.b.slice(order, dim, 0, c.integer("k"));
    return {c.b.gather(x, dim, first), first};
}

Tensors cumsum(Call& c) { return {c.b.cumsum(c.tensor("self"), c.dim("dim"), c.dtype())}; }

/// Counts of elements in equal bins; those outside [min, max] count nowhere.
Tensors histc(Call& c) {
    const std::int64_t bins = c.integer("bins", 100);
    const double low = c.number("min", 0), high = c.number("max", 0);
    if (!(low < high)) c.fail("histc needs min < max: bins that depend on the data are not supported");
    const Tensor x = c.b.expand(c.b.unsqueeze(c.b.reshape(c.tensor("self"), {-1}), 0), {bins, -1});
    const DType compute = is_float(x.dtype) ? compute_type(x.dtype) : DType::F32;
    const Tensor hits = c.b.pointwise({x}, DType::I64, [&](Expr& e, const Nodes& n) {
        const auto number = [&](double value) { return e.constant(value, compute); };
        const std::int32_t element = e.cast(n[0], compute);
        const std::int32_t offset = e.apply(Op::Sub, {element, number(low)});
        const std::int32_t scaled = e.apply(
            Op::Div, {e.apply(Op::Mul, {offset, number(static_cast<double>(bins))}), number(high - low)});
        const std::int32_t bin =
            e.apply(Op::Min, {e.apply(Op::Floor, {scaled}), number(static_cast<double>(bins - 1))});
        const std::int32_t inside = e.apply(
            Op::And, {e.apply(Op::Le, {number(low), element}), e.apply(Op::Le, {element, number(high)})});
        const std::int32_t here = e.apply(Op::Eq, {bin, e.cast(e.index(0), compute)});
        const std::int32_t hit = e.apply(Op::And, {inside, here});
        return e.apply(Op::Select, {hit, e.constant(1, DType::I64), e.constant(0, DType::I64)});
    });
    return {c.b.reduce(ReduceOp::Sum, hits, {1}, false, c.dtype())};
}

}  // namespace

const LoweringTable& order_lowerings() {
    static const LoweringTable table = {
        {"aten.argmax", argmax},
        {"aten.max", extreme<ReduceOp::Max>},
        {"aten.min", extreme<ReduceOp::Min>},
        {"aten.sort", sort},
        {"aten.argsort", argsort},
        {"aten.topk", topk},
        {"aten.cumsum", cumsum},
        {"aten.histc", histc},
    };
    return table;
}

}  // namespace stretto
