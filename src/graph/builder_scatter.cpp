#include <fmt/format.h>

#include <utility>

#include "graph/builder.h"
#include "graph/promote.h"

namespace stretto {
namespace {

using Nodes = std::vector<std::int32_t>;

}  // namespace

Tensor GraphBuilder::scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& values) {
    const std::size_t d = dim_of(x, dim);
    const Shape shape = x.shape();
    Shape rows = shape;
    if (index.rank() == x.rank()) rows[d] = index.shape()[d];
    if (index.shape() != rows || rows[d] > kLongestScatterChain) {
        fail(fmt::format(
            "scatter of an index of shape {} into {} along {} is not supported: at most {} positions "
            "of whole rows are",
            to_text(index.shape()), to_text(shape), dim, kLongestScatterChain));
    }
    const Tensor source = broadcast(values, rows);
    Tensor result = x;
    for (std::int64_t k = 0; k < rows[d]; ++k) {
        const auto column = [&](const Tensor& t) { return slice(t, static_cast<int>(d), k, k + 1); };
        result = pointwise({result, column(index), column(source)}, x.dtype, [&](Expr& e, const Nodes& n) {
            const auto here =
                e.apply(Op::Eq, DType::Bool, {e.cast(n[1], DType::I64), e.index(static_cast<int>(d))});
            return e.apply(Op::Select,
                           {here, e.cast(n[2], e.nodes[static_cast<std::size_t>(n[0])].type), n[0]});
        });
    }
    return result;
}

}  // namespace stretto
