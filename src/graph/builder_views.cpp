#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/builder.h"
#include "graph/promote.h"

namespace stretto {
namespace {

/// One expression reads so many parts of a concatenation: a task has room for few buffers.
constexpr std::size_t kMostParts = 8;

std::int64_t clamped(std::int64_t at, std::int64_t extent) {
    return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
}

}  // namespace

std::size_t GraphBuilder::dim_of(const Tensor& x, int dim) const {
    const int rank = std::max(static_cast<int>(x.rank()), 1);
    if (dim < -rank || dim >= rank) {
        fail(fmt::format("dimension {} is outside a tensor of shape {}", dim, to_text(x.shape())));
    }
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

Tensor GraphBuilder::permute(const Tensor& x, std::vector<int> order) {
    std::vector<bool> seen(x.rank(), false);
    for (int& dim : order) {
        dim = static_cast<int>(dim_of(x, dim));
        if (static_cast<std::size_t>(dim) < seen.size()) seen[static_cast<std::size_t>(dim)] = true;
    }
    if (order.size() != x.rank() || std::find(seen.begin(), seen.end(), false) != seen.end()) {
        fail(fmt::format("not a permutation of the dimensions of shape {}", to_text(x.shape())));
    }
    return {x.value, permuted(x.map, order), x.dtype};
}

Tensor GraphBuilder::transpose(const Tensor& x, int a, int b) {
    if (x.rank() == 0) return x;
    std::vector<int> order(x.rank());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[dim_of(x, a)], order[dim_of(x, b)]);
    return permute(x, std::move(order));
}

Tensor GraphBuilder::reshape(const Tensor& x, Shape shape) {
    const std::int64_t count = volume(x.shape());
    const auto free = std::find(shape.begin(), shape.end(), -1);
    if (free != shape.end()) {
        *free = 1;
        const std::int64_t known = volume(shape);
        *free = known == 0 ? 0 : count / known;
    }
    if (volume(shape) != count) {
        fail(fmt::format("shape {} does not hold the {} elements of shape {}", to_text(shape), count,
                         to_text(x.shape())));
    }
    if (count == 0) return full(std::move(shape), 0, x.dtype);
    if (auto map = reshaped(x.map, shape)) return {x.value, std::move(*map), x.dtype};
    const Tensor dense = copied(x);
    return {dense.value, identity_map(shape), x.dtype};
}

Tensor GraphBuilder::expand(const Tensor& x, Shape shape) {
    const std::size_t lead = shape.size() < x.rank() ? 0 : shape.size() - x.rank();
    const Shape have = x.shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == -1 && d >= lead && d - lead < have.size()) shape[d] = have[d - lead];
        if (shape[d] < 0) fail(fmt::format("cannot expand shape {} to {}", to_text(have), to_text(shape)));
    }
    return broadcast(x, shape);
}

Tensor GraphBuilder::squeeze(const Tensor& x, int dim) {
    if (x.rank() == 0) return x;
    const std::size_t d = dim_of(x, dim);
    if (x.shape()[d] != 1) return x;
    return {x.value, removed_dim(x.map, d), x.dtype};
}

Tensor GraphBuilder::unsqueeze(const Tensor& x, int dim) {
    const int rank = static_cast<int>(x.rank()) + 1;
    if (dim < -rank || dim >= rank) {
        fail(fmt::format("dimension {} is outside a tensor of shape {} with one more", dim,
                         to_text(x.shape())));
    }
    return {x.value, inserted_dim(x.map, static_cast<std::size_t>(dim < 0 ? dim + rank : dim), 1), x.dtype};
}

Tensor GraphBuilder::slice(const Tensor& x, int dim, std::int64_t begin, std::int64_t end,
                           std::int64_t step) {
    const std::size_t d = dim_of(x, dim);
    if (x.rank() == 0 || step < 1) {
        fail(fmt::format("cannot slice shape {} with step {}", to_text(x.shape()), step));
    }
    const std::int64_t extent = x.shape()[d];
    begin = clamped(begin, extent);
    end = std::max(clamped(end, extent), begin);
    const std::int64_t count = (end - begin + step - 1) / step;
    if (begin == 0 && count == extent) return x;
    if (auto map = sliced(x.map, d, begin, count, step)) return {x.value, std::move(*map), x.dtype};
    const Tensor dense = copied(x);
    return {dense.value, sliced(dense.map, d, begin, count, step).value(), x.dtype};
}

Tensor GraphBuilder::select(const Tensor& x, int dim, std::int64_t at) {
    const std::size_t d = dim_of(x, dim);
    const std::int64_t extent = x.rank() == 0 ? 0 : x.shape()[d];
    if (at < -extent || at >= extent) {
        fail(fmt::format("index {} is outside dimension {} of shape {}", at, dim, to_text(x.shape())));
    }
    const std::int64_t begin = at < 0 ? at + extent : at;
    const Tensor one = slice(x, dim, begin, begin + 1);
    return {one.value, removed_dim(one.map, d), x.dtype};
}

Tensor GraphBuilder::concat(const std::vector<Tensor>& parts, int dim) {
    std::vector<Tensor> used;
    for (const Tensor& part : parts) {
        if (volume(part.shape()) > 0) used.push_back(part);
    }
    if (used.empty()) fail("nothing to concatenate: every part is empty");
    const std::size_t d = dim_of(used.front(), dim);
    Shape shape = used.front().shape();
    DType dtype = used.front().dtype;
    for (std::size_t i = 1; i < used.size(); ++i) {
        Shape other = used[i].shape();
        if (other.size() != shape.size() || d >= shape.size()) {
            fail(fmt::format("cannot concatenate shapes {} and {}", to_text(shape), to_text(other)));
        }
        shape[d] += other[d];
        other[d] = shape[d];
        if (other != shape) {
            fail(fmt::format("cannot concatenate shapes {} and {}", to_text(shape), to_text(other)));
        }
        dtype = promoted(dtype, used[i].dtype);
    }
    if (used.size() == 1) return used.front();
    if (used.size() > kMostParts) {
        std::vector<Tensor> groups;
        for (std::size_t i = 0; i < used.size(); i += kMostParts) {
            const auto first = used.begin() + static_cast<std::ptrdiff_t>(i);
            groups.push_back(concat(
                {first, first + static_cast<std::ptrdiff_t>(std::min(kMostParts, used.size() - i))}, dim));
        }
        return concat(groups, dim);
    }

    // Each part is padded to the whole extent: outside its own range its load is masked and touches no
    // memory.
    Expr expr;
    std::vector<std::int32_t> values;
    std::vector<std::int64_t> ends;
    std::int64_t begin = 0;
    for (const Tensor& part : used) {
        const std::int64_t end = begin + part.shape()[d];
        auto map = padded(part.map, d, begin, shape[d] - end);
        const Tensor source = map ? part : copied(part);
        if (!map) map = padded(source.map, d, begin, shape[d] - end);
        values.push_back(expr.cast(expr.load(access({source.value, map.value(), source.dtype})), dtype));
        ends.push_back(end);
        begin = end;
    }
    std::int32_t value = values.back();
    for (std::size_t i = values.size() - 1; i-- > 0;) {
        const auto inside = expr.apply(
            Op::Lt, DType::Bool,
            {expr.index(static_cast<int>(d)), expr.constant(static_cast<double>(ends[i]), DType::I64)});
        value = expr.apply(Op::Select, dtype, {inside, values[i], value});
    }
    return add({{dtype, shape}, Pointwise{std::move(expr)}, {}});
}

}  // namespace stretto
