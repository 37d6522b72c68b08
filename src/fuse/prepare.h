#pragma once

#include <set>

#include "base/machine.h"
#include "base/plan_options.h"
#include "graph/graph.h"

namespace stretto {

/// Updates that need more than a store in place, by their keys (see Prepared).
struct UpdateCare {
    std::set<std::size_t> copied;
    std::set<std::size_t> separated;
};

/// A graph in which every write is explicit.
struct Prepared {
    Graph graph;
    /// For each of its Updates, in order, what it was made from: a value, or (counted after all values) an output that is
    /// written back. It does not change when other updates are handled differently.
    std::vector<std::size_t> update_keys;
    /// Values that cost less computed once and handed over than in each of their readers.
    std::set<ValueId> stored;
};

/// Makes every write explicit and every value storable, so that a buffer can be given to each value:
/// - attention over a long context is split for the machine; an expression combines the parts, stored where that is cheaper;
/// - a state's new value is an Update of it;
/// - each result is a value of its own, not an input or a state;
/// - an Update whose old value is still needed, or may not be changed, works on a copy: all but one of the same value,
///   those of inputs that do not lead to the input's next value, and those in `care.copied`;
/// - the new elements of the updates in `care.separated` are a value of their own, for updates that would otherwise
///   read elements of the state that they have changed already.
[[nodiscard]] Prepared prepare(const Graph& graph, const Machine& machine, const UpdateCare& care,
                               const PlanOptions& options = {});

/// How many neighbouring query heads read the same key and value rows.
[[nodiscard]] std::int64_t heads_per_row(const Attention& op);

}  // namespace stretto
