#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/promote.h"
#include "import/call.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

Tensors same(Call& c) { return {c.tensor(c.has("self") ? "self" : "input")}; }

/// A conversion to the result's type; the memory format does not matter to a value.
Tensors convert(Call& c) { return {c.b.cast(c.tensor("self"), c.dtype())}; }

Tensors to_result_shape(Call& c) { return {c.b.reshape(c.tensor("self"), c.shape())}; }

/// The bits of a tensor as another type.
Tensors bits(Call& c) {
    const Tensor x = c.tensor("self");
    if (x.dtype == c.dtype()) return {x};
    if (x.dtype != DType::F32 || c.dtype() != DType::I32) {
        c.fail("only a float32 tensor can be viewed as another type, which is int32");
    }
    return {c.b.pointwise({x}, DType::I32, [](Expr& e, const std::vector<std::int32_t>& nodes) {
        return e.apply(Op::Bits, DType::I32, {nodes[0]});
    })};
}

Tensors view(Call& c) { return c.has("dtype") ? bits(c) : to_result_shape(c); }

Tensors expand(Call& c) { return {c.b.expand(c.tensor("self"), c.shape())}; }

Tensors permute(Call& c) { return {c.b.permute(c.tensor("self"), c.dims("dims"))}; }

Tensors transpose(Call& c) { return {c.b.transpose(c.tensor("self"), c.dim("dim0"), c.dim("dim1"))}; }

Tensors matrix_transpose(Call& c) {
    const Tensor x = c.tensor("self");
    return {x.rank() < 2 ? x : c.b.transpose(x, 0, 1)};
}

Tensors unsqueeze(Call& c) { return {c.b.unsqueeze(c.tensor("self"), c.dim("dim"))}; }

Tensors slice(Call& c) {
    return {c.b.slice(c.tensor("self"), c.dim("dim", 0), c.integer("start", 0), c.integer("end", kEnd),
                      c.integer("step", 1))};
}

Tensors select(Call& c) { return {c.b.select(c.tensor("self"), c.dim("dim"), c.integer("index"))}; }

Tensors cat(Call& c) {
    const Tensor whole = c.b.concat(c.tensors("tensors"), c.dim("dim", 0));
    return {c.b.cast(whole, c.dtype())};
}

Tensors stack(Call& c) {
    Tensors parts = c.tensors("tensors");
    for (Tensor& part : parts) part = c.b.unsqueeze(part, c.dim("dim", 0));
    return {c.b.cast(c.b.concat(parts, c.dim("dim", 0)), c.dtype())};
}

/// The last dimension's positions before and behind come first; negative ones are cut off.
Tensors constant_pad(Call& c) {
    Tensor x = c.tensor("self");
    const std::vector<std::int64_t> counts = c.integers("pad");
    const double value = c.number("value", 0);
    for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
        const std::size_t d = x.rank() - 1 - i / 2;
        const int dim = static_cast<int>(d);
        const std::int64_t begin = std::max<std::int64_t>(-counts[i], 0);
        const std::int64_t end = x.shape()[d] - std::max<std::int64_t>(-counts[i + 1], 0);
        const auto padding = [&](std::int64_t count) {
            Shape shape = x.shape();
            shape[d] = std::max<std::int64_t>(count, 0);
            return c.b.full(shape, value, x.dtype);
        };
        const Tensor before = padding(counts[i]);
        const Tensor behind = padding(counts[i + 1]);
        x = c.b.concat({before, c.b.slice(x, dim, begin, end), behind}, dim);
    }
    return {x};
}

/// Neighbouring slices along a dimension, of the extents that PyTorch gave the results.
Tensors split(Call& c) {
    const Tensor x = c.tensor("self");
    const int dim = c.dim("dim", 0);
    Tensors parts;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < c.result_count(); ++i) {
        const Shape shape = c.shape(i);
        const std::size_t d = static_cast<std::size_t>(dim < 0 ? dim + static_cast<int>(shape.size()) : dim);
        if (d >= shape.size()) c.fail("it splits a dimension that its operand does not have");
        parts.push_back(c.b.slice(x, dim, begin, begin + shape[d]));
        begin += shape[d];
    }
    return parts;
}

Tensors unbind(Call& c) {
    Tensors parts;
    for (std::size_t i = 0; i < c.result_count(); ++i) {
        parts.push_back(c.b.select(c.tensor("self"), c.dim("dim", 0), static_cast<std::int64_t>(i)));
    }
    return parts;
}

/// Each dimension is split into (repeat, extent), the first of stride 0, and merged again.
Tensors repeat(Call& c) {
    Tensor x = c.tensor("self");
    const std::vector<std::int64_t> repeats = c.integers("repeats");
    while (x.rank() < repeats.size()) x = c.b.unsqueeze(x, 0);
    const Shape have = x.shape();
    if (repeats.size() != have.size()) c.fail("it repeats fewer dimensions than its operand has");
    Shape split, repeated;
    for (std::size_t d = 0; d < have.size(); ++d) {
        split.insert(split.end(), {1, have[d]});
        repeated.insert(repeated.end(), {repeats[d], have[d]});
    }
    return {c.b.reshape(c.b.expand(c.b.reshape(x, split), repeated), c.shape())};
}

Tensors dropout(Call& c) {
    if (c.flag("train", false) && c.number("p") != 0) {
        c.fail("dropout in training mode is not supported; call model.eval() before export");
    }
    return {c.tensor("input")};
}

}  // namespace

const LoweringTable& view_lowerings() {
    static const LoweringTable table = {
        {"aten.alias", same},
        {"aten.clone", same},
        {"aten.contiguous", same},
        {"aten.detach", same},
        {"aten.lift_fresh", same},
        {"aten.lift_fresh_copy", same},
        {"aten._to_copy", convert},
        {"aten.to", convert},
        {"aten.type_as", convert},
        {"aten.view", view},
        {"aten._unsafe_view", view},
        {"aten.reshape", view},
        {"aten.flatten", to_result_shape},
        {"aten.unflatten", to_result_shape},
        {"aten.squeeze", to_result_shape},
        {"aten.view_as", to_result_shape},
        {"aten.unsqueeze", unsqueeze},
        {"aten.expand", expand},
        {"aten.expand_as", expand},
        {"aten.permute", permute},
        {"aten.transpose", transpose},
        {"aten.t", matrix_transpose},
        {"aten.slice", slice},
        {"aten.select", select},
        {"aten.cat", cat},
        {"aten.stack", stack},
        {"aten.constant_pad_nd", constant_pad},
        {"aten.split", split},
        {"aten.split_with_sizes", split},
        {"aten.chunk", split},
        {"aten.unbind", unbind},
        {"aten.repeat", repeat},
        {"aten.dropout", dropout},
    };
    return table;
}

}  // namespace stretto
