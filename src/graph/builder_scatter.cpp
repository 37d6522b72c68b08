#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/builder.h"
#include "graph/promote.h"

namespace stretto {

using Nodes = std::vector<std::int32_t>;

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

/// Around a part of a constant there is nothing to keep: an expression does, which its readers take in.
Tensor GraphBuilder::within(const Tensor& x, const Tensor& values, int dim, std::int64_t begin,
                            std::int64_t end) {
    const std::size_t d = dim_of(x, dim);
    const std::int64_t extent = x.shape()[d];
    const std::int64_t from = std::clamp<std::int64_t>(begin < 0 ? begin + extent : begin, 0, extent);
    const Shape part = slice(x, dim, begin, end).shape();
    const Tensor before = slice(x, dim, 0, from), after = slice(x, dim, from + part[d], extent);
    return concat({before, expand(cast(values, x.dtype), part), after}, dim);
}

}  // namespace stretto
