#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/oracle.h"

namespace stretto {

/// Positions that sort `row` as torch.sort(stable=True) does: not a number is largest.
[[nodiscard]] inline Elements stable_order(const Elements& row, bool descending) {
    std::vector<std::size_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return descending ? less(row[b], row[a]) : less(row[a], row[b]);
    });
    return {order.begin(), order.end()};
}

}  // namespace stretto
