#pragma once

#include <set>

#include "base/machine.h"
#include "graph/graph.h"

namespace stretto {

/// Updates that need more than a store in place, by their number among the updates of the prepared graph.
struct UpdateCare {
    std::set<std::size_t> copied;
    std::set<std::size_t> separated;
};

/// Makes every write explicit and every value storable, so that a buffer can be given to each value:
/// - attention over a long context is split for the machine; an expression combines the parts;
/// - a state's new value is an Update of it;
/// - each result is a value of its own, not an input or a state;
/// - an Update whose old value is still needed, or may not be changed, works on a copy: all but one of the same value,
///   those of inputs that do not lead to the input's next value, and those in `care.copied`;
/// - the new elements of the updates in `care.separated` are a value of their own, for updates that would otherwise
///   read elements of the state that they have changed already.
[[nodiscard]] Graph prepare(const Graph& graph, const Machine& machine, const UpdateCare& care);

/// How many neighbouring query heads read the same key and value rows.
[[nodiscard]] std::int64_t heads_per_row(const Attention& op);

}  // namespace stretto
