#pragma once

#include <vector>

#include "fuse/decide.h"
#include "fuse/prologue.h"

namespace stretto {

/// The expressions of a prepared graph with every value that is decided to be inlined replaced by how it is
/// computed. Throws Inexpressible where a view does not compose.
class Expansion {
public:
    Expansion(const Graph& graph, const Decisions& decisions);

    /// `expr` with inlined pointwise values expanded. Loads of inlined reductions stay.
    [[nodiscard]] Expr expanded(const Expr& expr) const;
    /// The value behind an access, over the access's own space.
    [[nodiscard]] Expr expanded(const Access& access) const;
    /// The reduction behind an inlined source; nullptr for anything else.
    [[nodiscard]] const InlineReduction* reduction(std::int32_t source) const;

private:
    const Graph& graph_;
    const Decisions& decisions_;
    std::vector<Expr> pointwise_;              ///< by value id; empty where it is not inlined
    std::vector<InlineReduction> reductions_;  ///< by value id; null reduce where it is not inlined
};

}  // namespace stretto
