#pragma once

#include "graph/builder.h"

namespace stretto {

/// The head of a language model for few rows: hidden states "h" [rows, depth], weights "w" [columns, depth].
struct HeadGraph {
    std::int64_t rows = 1;
    std::int64_t columns = 0;
    std::int64_t depth = 64;
    DType type = DType::F32;  ///< of hidden states and weights, and of both products
    bool trained = false;     ///< the weights' gradient is an output, too
};

/// Cross entropy with "target" [rows] (I64), of which each row counts as "scale" [rows] (F32): "loss" [rows], and the "gradient"
/// [rows, depth] of the scaled sum with respect to h.
[[nodiscard]] Graph head_gradients(const HeadGraph& head);

}  // namespace stretto
