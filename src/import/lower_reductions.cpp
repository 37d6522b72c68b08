#include <utility>

#include "graph/promote.h"
#include "import/call.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;
using Nodes = std::vector<std::int32_t>;

std::int64_t count_over(const Tensor& x, const std::vector<int>& dims) {
    const Shape shape = x.shape();
    std::int64_t count = 1;
    if (dims.empty()) return volume(shape);
    for (const int dim : dims)
        count *= shape.at(static_cast<std::size_t>(dim < 0 ? dim + static_cast<int>(shape.size()) : dim));
    return count;
}

/// x with dimensions that exist: PyTorch lets a scalar be reduced over dimension 0 or -1.
struct Reduced {
    Tensor x;
    std::vector<int> dims;
    bool keep_dim = false;
};

Reduced operand(Call& c) {
    Reduced r{c.tensor("self"), c.dims("dim"), c.flag("keepdim", false)};
    if (r.x.rank() == 0) r.dims.clear();
    for (const int dim : r.dims) {
        const int rank = static_cast<int>(r.x.rank());
        if (dim < -rank || dim >= rank) c.fail("it reduces a dimension that its operand does not have");
    }
    return r;
}

template <ReduceOp op>
Tensors plain(Call& c) {
    const Reduced r = operand(c);
    return {c.b.reduce(op, r.x, r.dims, r.keep_dim, c.dtype())};
}

/// any and all: the maximum and minimum of truth values.
template <ReduceOp op>
Tensors truth(Call& c) {
    const Reduced r = operand(c);
    return {c.b.reduce(op, c.b.cast(r.x, DType::Bool), r.dims, r.keep_dim, DType::Bool)};
}

/// (sum over dims of x) / divisor in the compute type of `result`, kept dimensions.
Tensor mean_of(GraphBuilder& b, const Tensor& x, const std::vector<int>& dims, bool keep_dim, double divisor,
               DType result) {
    const DType compute = compute_type(result);
    const Tensor sum = b.reduce(ReduceOp::Sum, x, dims, keep_dim, compute);
    return b.pointwise({sum}, result, [&](Expr& e, const Nodes& n) {
        return e.apply(Op::Div, compute, {n[0], e.constant(divisor, compute)});
    });
}

Tensors mean(Call& c) {
    const Reduced r = operand(c);
    return {mean_of(c.b, r.x, r.dims, r.keep_dim, static_cast<double>(count_over(r.x, r.dims)), c.dtype())};
}

/// x minus its mean over `dims`, in `compute`.
Tensor centered(GraphBuilder& b, const Tensor& x, const std::vector<int>& dims, DType compute) {
    const Tensor mean = mean_of(b, x, dims, true, static_cast<double>(count_over(x, dims)), compute);
    return b.apply(Op::Sub, {x, mean}, compute);
}

Tensors var(Call& c) {
    const Reduced r = operand(c);
    const DType compute = compute_type(c.dtype());
    const double correction =
        c.has("unbiased") ? (c.flag("unbiased", true) ? 1 : 0) : c.number("correction", 1);
    const Tensor difference = centered(c.b, r.x, r.dims, compute);
    const Tensor squares = c.b.apply(Op::Mul, {difference, difference}, compute);
    return {mean_of(c.b, squares, r.dims, r.keep_dim,
                    static_cast<double>(count_over(r.x, r.dims)) - correction, c.dtype())};
}

Tensors softmax(Call& c) { return {c.b.softmax(c.tensor("self"), c.dim("dim"), c.dtype())}; }

Tensors log_softmax(Call& c) {
    const Tensor x = c.tensor("self");
    const DType compute = compute_type(c.dtype());
    const Tensor top = c.b.reduce(ReduceOp::Max, x, {c.dim("dim")}, true, compute);
    const Tensor shifted = c.b.apply(Op::Sub, {x, top}, compute);
    const Tensor exponentials = c.b.apply(Op::Exp, {shifted}, compute);
    const Tensor total = c.b.reduce(ReduceOp::Sum, exponentials, {c.dim("dim")}, true, compute);
    return {c.b.pointwise({shifted, total}, c.dtype(), [&](Expr& e, const Nodes& n) {
        return e.apply(Op::Sub, compute, {n[0], e.apply(Op::Log, compute, {n[1]})});
    })};
}

/// The last dimensions, as many as `normalized_shape` has.
std::vector<int> normalized_dims(Call& c) {
    std::vector<int> dims;
    const int count = static_cast<int>(c.integers("normalized_shape").size());
    if (count == 0 || count > static_cast<int>(c.tensor("input").rank())) {
        c.fail("normalized_shape does not fit the input");
    }
    for (int d = -count; d < 0; ++d) dims.push_back(d);
    return dims;
}

/// x * 1/sqrt(mean(x^2) + eps) * weight + bias, rounded once.
Tensor scaled_by_rms(Call& c, const Tensor& x, const std::vector<int>& dims, double eps, DType result) {
    const DType compute = compute_type(result);
    const Tensor squares = c.b.apply(Op::Mul, {x, x}, compute);
    const Tensor mean = mean_of(c.b, squares, dims, true, static_cast<double>(count_over(x, dims)), compute);
    Tensors operands = {x, mean};
    const auto weight = c.optional_tensor("weight");
    const auto bias = c.has("bias") ? c.optional_tensor("bias") : std::nullopt;
    if (weight) operands.push_back(*weight);
    if (bias) operands.push_back(*bias);
    return c.b.pointwise(operands, result, [&](Expr& e, const Nodes& n) {
        const auto shifted = e.apply(Op::Add, compute, {n[1], e.constant(eps, compute)});
        auto value = apply_typed(e, Op::Mul, compute, {n[0], e.apply(Op::Rsqrt, compute, {shifted})});
        std::size_t next = 2;
        if (weight) value = apply_typed(e, Op::Mul, compute, {value, n[next++]});
        if (bias) value = apply_typed(e, Op::Add, compute, {value, n[next]});
        return value;
    });
}

Tensors layer_norm(Call& c) {
    const std::vector<int> dims = normalized_dims(c);
    const Tensor x = centered(c.b, c.tensor("input"), dims, compute_type(c.dtype()));
    return {scaled_by_rms(c, x, dims, c.number("eps", 1e-5), c.dtype())};
}

/// The norm, and the statistics that its derivative uses: mean and 1/sqrt(variance + eps), as PyTorch typed them.
Tensors native_layer_norm(Call& c) {
    const Tensor x = c.tensor("input");
    const std::vector<int> dims = normalized_dims(c);
    const DType compute = compute_type(c.dtype());
    const auto count = static_cast<double>(count_over(x, dims));
    const Tensor mean = mean_of(c.b, x, dims, true, count, compute);
    const Tensor difference = c.b.apply(Op::Sub, {x, mean}, compute);
    const Tensor squares = c.b.apply(Op::Mul, {difference, difference}, compute);
    const Tensor variance = mean_of(c.b, squares, dims, true, count, compute);
    const Tensor scale = c.b.pointwise({variance}, compute, [&](Expr& e, const Nodes& n) {
        return e.apply(Op::Rsqrt, compute,
                       {e.apply(Op::Add, compute, {n[0], e.constant(c.number("eps"), compute)})});
    });
    Tensors results = {scaled_by_rms(c, difference, dims, c.number("eps"), c.dtype())};
    if (c.result_count() > 1) results.push_back(c.b.cast(mean, c.dtype(1)));
    if (c.result_count() > 2) results.push_back(c.b.cast(scale, c.dtype(2)));
    return results;
}

double epsilon_of(DType type) {
    switch (type) {
        case DType::F16:
            return 0x1p-10;
        case DType::BF16:
            return 0x1p-7;
        case DType::F64:
            return 0x1p-52;
        default:
            return 0x1p-23;
    }
}

Tensors rms_norm(Call& c) {
    const Tensor x = c.tensor("input");
    return {scaled_by_rms(c, x, normalized_dims(c), c.number("eps", epsilon_of(x.dtype)), c.dtype())};
}

}  // namespace

const LoweringTable& reduction_lowerings() {
    static const LoweringTable table = {
        {"aten.sum", plain<ReduceOp::Sum>},
        {"aten.amax", plain<ReduceOp::Max>},
        {"aten.amin", plain<ReduceOp::Min>},
        {"aten.any", truth<ReduceOp::Max>},
        {"aten.all", truth<ReduceOp::Min>},
        {"aten.mean", mean},
        {"aten.var", var},
        {"aten.softmax", softmax},
        {"aten._softmax", softmax},
        {"aten._safe_softmax", softmax},
        {"aten.log_softmax", log_softmax},
        {"aten._log_softmax", log_softmax},
        {"aten.layer_norm", layer_norm},
        {"aten.native_layer_norm", native_layer_norm},
        {"aten.rms_norm", rms_norm},
        {"aten._fused_rms_norm", rms_norm},
    };
    return table;
}

}  // namespace stretto
