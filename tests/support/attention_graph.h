#pragma once

#include "graph/graph.h"

namespace stretto {

/// Attention of [heads, rows, depth] as a program writes it by hand: products, and a softmax between them in F32 (or F64).
struct AttentionSizes {
    std::int64_t heads = 2;
    std::int64_t key_heads = 2;  ///< neighbouring query heads share a key head
    std::int64_t rows = 81;
    std::int64_t depth = 32;
    DType type = DType::BF16;  ///< of operands and results
    bool causal = true;
    bool dropout = false;  ///< between softmax and mix, by an input "kept"
    bool bias = false;     ///< added to the scores, an input "bias"
};

/// Forward, and backward as PyTorch's autograd writes it. Inputs "query", "key", "value" and "gradient" (of the result);
/// outputs "out", "d_query", "d_key" and "d_value".
[[nodiscard]] Graph attention_gradients(const AttentionSizes& sizes);

}  // namespace stretto
