#include <cmath>
#include <utility>

#include "import/call.h"

namespace stretto {
namespace {

using Tensors = std::vector<Tensor>;

/// A tensor of the result's shape and type with one value everywhere.
template <int value>
Tensors filled(Call& c) {
    return {c.b.full(c.shape(), value, c.dtype())};
}

Tensors full(Call& c) { return {c.b.full(c.shape(), c.number("fill_value"), c.dtype())}; }

Tensors scalar(Call& c) { return {c.b.full(c.shape(), c.number("s"), c.dtype())}; }

Tensors arange(Call& c) {
    return {c.b.arange(c.shape().at(0), c.number("start", 0), c.number("step", 1), c.dtype())};
}

}  // namespace

const LoweringTable& creation_lowerings() {
    static const LoweringTable table = {
        {"aten.zeros", filled<0>},
        {"aten.zeros_like", filled<0>},
        {"aten.new_zeros", filled<0>},
        // What nobody wrote may hold anything; zeros keep runs equal.
        {"aten.empty", filled<0>},
        {"aten.empty_like", filled<0>},
        {"aten.empty_permuted", filled<0>},
        {"aten.new_empty", filled<0>},
        {"aten.ones", filled<1>},
        {"aten.ones_like", filled<1>},
        {"aten.new_ones", filled<1>},
        {"aten.full", full},
        {"aten.full_like", full},
        {"aten.new_full", full},
        {"aten.scalar_tensor", scalar},
        {"aten.arange", arange},
    };
    return table;
}

}  // namespace stretto
