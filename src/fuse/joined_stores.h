#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// Longer expressions are not worth the loads that joining saves.
inline constexpr std::size_t kMostJoinedNodes = 256;

/// `expr` with every load of a buffer that one of the `stores` fills replaced by what it puts there, element for element. What
/// takes a load's place reads the elements from before all stores.
[[nodiscard]] Expr with_values_of(const std::vector<Store>& stores, const Expr& expr);

/// `expr` with another number for each accumulator.
[[nodiscard]] Expr renumbered(const Expr& expr, const std::vector<std::size_t>& numbers);

/// Stores of two regions over one space as those of one that does the work of both position by position: what `second` loads
/// from a buffer that `first` fills becomes the value itself, and stores to `dropped` buffers go. A store that reads an
/// element stands before the store that changes it, so that all loads of a position may come before its stores. Nothing
/// where no order does that, where a store depends on data, or where an expression grows beyond what its loads are worth.
[[nodiscard]] std::optional<std::vector<Store>> joined_stores(
    const std::vector<Store>& first, const std::vector<Store>& second,
    const std::function<bool(std::int32_t buffer)>& dropped);

/// Drops maps without stores and intermediates without users.
void remove_empty(RegionGraph& graph);

}  // namespace stretto
