#include "fuse/product_operand.h"

#include <algorithm>

#include "graph/index_groups.h"

namespace stretto {
namespace {

constexpr std::int64_t kPieceBytes = 16;

bool is_contiguous(const std::vector<Atom>& digits) {
    return digits.back().extent > 1 && digits.back().stride == 1;
}

}  // namespace

std::optional<PlainOperand> plain_operand(const Access& access, std::size_t row, std::size_t depth) {
    const IndexMap map = normalized(access.map);
    if (map.masked() || !access.indirect.empty()) return std::nullopt;
    PlainOperand operand;
    operand.column = !is_contiguous(map.dims[depth]) && is_contiguous(map.dims[row]);
    const std::size_t along = operand.column ? row : depth;
    if (!is_contiguous(map.dims[along])) return operand;
    operand.grain = kPieceBytes / static_cast<std::int64_t>(size_of(access.type));
    while (operand.grain > 1 && !lies_in_groups(map, along, operand.grain)) operand.grain /= 2;
    return operand;
}

const Access* plain_left_side(const MatMulRegion& region) {
    const bool plain = region.stats.empty() && region.a.nodes.size() == 1 &&
                       region.a.nodes.front().op == Op::Load && region.a.accesses.size() == 1 &&
                       region.a.accesses.front().type == region.a_type;
    return plain ? &region.a.accesses.front() : nullptr;
}

bool has_ragged_rows(const MatMulRegion& region) {
    return region.ragged &&
           (moves_along(region.ragged->begin.map, 1) || moves_along(region.ragged->end.map, 1));
}

std::optional<PlainOperand> plain_weights(const MatMulRegion& region) {
    std::optional<PlainOperand> all;
    for (const Access& weight : region.weights) {
        const auto one = plain_operand(weight, 2);
        if (!one || weight.type != region.a_type || (all && all->column != one->column)) return std::nullopt;
        all = PlainOperand{one->column, all ? std::min(all->grain, one->grain) : one->grain};
    }
    return all;
}

}  // namespace stretto
