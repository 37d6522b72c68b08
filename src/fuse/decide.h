#pragma once

#include <set>
#include <vector>

#include "base/machine.h"
#include "base/plan_options.h"
#include "graph/graph.h"

namespace stretto {

/// What earlier attempts at building regions have ruled out, by value id of the prepared graph.
struct RuledOut {
    std::set<ValueId> inlining;  ///< values that must be stored
    std::set<ValueId> epilogue;  ///< values that may not be computed in an anchor's epilogue
};

/// How each value of a prepared graph comes to be.
struct Decisions {
    enum class Way : std::uint8_t {
        Given,     ///< an input
        Anchor,    ///< main loop of a region of its own (contraction, reduction, attention)
        Epilogue,  ///< computed where its anchor's accumulator is at hand, and stored
        Map,       ///< element-wise region of its own
        Inline,    ///< never stored: recomputed by each consumer, contractions only by anchors in `scored`
    };
    std::vector<Way> way;
    std::vector<ValueId> anchor;  ///< of an Epilogue value, and of a Contract merged into another's region

    std::vector<bool> scored;  ///< anchors that compute contractions anew, as scores

    [[nodiscard]] Way of(ValueId id) const { return way.at(id.index()); }
};

/// Decides by cost: recomputing an expression in its consumers against a hand-off. An expression over a
/// contraction's result, element for element, joins its epilogue; contractions with the same left side whose results
/// meet in one epilogue share a region.
[[nodiscard]] Decisions decide(const Graph& graph, const Machine& machine, const RuledOut& ruled_out,
                               const PlanOptions& options = {});

}  // namespace stretto
