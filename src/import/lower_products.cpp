#include <cmath>
#include <utility>

#include "graph/promote.h"
#include "import/call.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;
using Nodes = std::vector<std::int32_t>;

Tensors matmul(Call& c) {
    return {c.b.matmul(c.tensor("self"), c.tensor(c.has("mat2") ? "mat2" : "other"), c.dtype())};
}

Tensors linear(Call& c) {
    return {c.b.linear(c.tensor("input"), c.tensor("weight"), c.optional_tensor("bias"))};
}

/// beta * self + alpha * (a @ b), rounded once.
Tensors add_product(Call& c, std::string_view a, std::string_view b) {
    const DType compute = compute_type(c.dtype());
    const Tensor product = c.b.matmul(c.tensor(a), c.tensor(b), compute);
    const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
    return {c.b.pointwise({product, c.tensor("self")}, c.dtype(), [&](Expr& e, const Nodes& n) {
        const auto scaled = [&](std::int32_t x, double factor) {
            return factor == 1 ? x : e.apply(Op::Mul, compute, {x, e.constant(factor, compute)});
        };
        return e.apply(Op::Add, compute, {scaled(n[0], alpha), scaled(n[1], beta)});
    })};
}

Tensors addmm(Call& c) { return add_product(c, "mat1", "mat2"); }
Tensors baddbmm(Call& c) { return add_product(c, "batch1", "batch2"); }

Tensors grouped(Call& c) {
    if (c.has("bias")) c.fail("a bias is not supported");
    const Tensor a = c.tensor("self"), b = c.tensor("mat2");
    if (!c.has("offs")) return {c.b.matmul(a, b, c.dtype())};
    return {c.b.grouped_matmul(a, b, c.tensor("offs"), c.dtype())};
}

/// The forms of scaled_dot_product_attention for several devices differ in the name of the mask and in further
/// results (statistics for the backward pass), which are left out.
Tensors attention(Call& c) {
    if (c.number("dropout_p", 0) != 0) {
        c.fail("attention with dropout is not supported; call model.eval() before export");
    }
    Tensor q = c.tensor("query"), k = c.tensor("key"), v = c.tensor("value");
    std::optional<Tensor> mask = c.optional_tensor(c.has("attn_bias") ? "attn_bias" : "attn_mask");
    if (q.rank() != k.rank() || q.rank() < 2 || q.rank() > 4)
        c.fail("attention operands must have 2 to 4 dimensions");
    for (Tensor* x : {&q, &k, &v}) {
        while (x->rank() < 4) *x = c.b.unsqueeze(*x, 0);
    }
    // Of three dimensions the first is the batch, which heads do as well.
    if (mask && mask->rank() == 3 && c.shape().size() == 3) mask = c.b.unsqueeze(*mask, 0);
    const double scale = c.number("scale", 1 / std::sqrt(static_cast<double>(q.shape().back())));
    const Tensor out = c.b.attention(q, k, v, mask, c.flag("is_causal", false), scale);
    return {c.b.reshape(out, c.shape())};
}

}  // namespace

const LoweringTable& product_lowerings() {
    static const LoweringTable table = {
        {"aten.mm", matmul},
        {"aten.bmm", matmul},
        {"aten.matmul", matmul},
        {"aten.linear", linear},
        {"aten.addmm", addmm},
        {"aten.baddbmm", baddbmm},
        {"aten._grouped_mm", grouped},
        {"aten.scaled_dot_product_attention", attention},
        {"aten._scaled_dot_product_flash_attention", attention},
        {"aten._scaled_dot_product_flash_attention_for_cpu", attention},
        {"aten._scaled_dot_product_efficient_attention", attention},
        {"aten._scaled_dot_product_cudnn_attention", attention},
    };
    return table;
}

}  // namespace stretto
