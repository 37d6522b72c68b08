#pragma once

#include "graph/graph.h"

namespace stretto {

/// Sizes of a decoder-only language model with grouped attention, rotary positions and a gated MLP.
struct DecodeSizes {
    std::int64_t layers = 2;
    std::int64_t batch = 1;
    std::int64_t hidden = 64;
    std::int64_t heads = 4;
    std::int64_t key_heads = 2;
    std::int64_t head = 16;
    std::int64_t wide = 160;  ///< of the MLP
    std::int64_t vocabulary = 300;
    std::int64_t context = 32;  ///< rows of the cache
};

/// 135 million parameters, as the smallest models that people run.
inline constexpr DecodeSizes kDecode135M{30, 1, 576, 9, 3, 64, 1536, 49152, 128};

/// One decode step in bf16, as a front end would build it: inputs "input_ids" i64[batch, 1] and "position" i64[1],
/// states "layers.N.keys" and "layers.N.values", output "logits" [batch, vocabulary].
[[nodiscard]] Graph decode_graph(const DecodeSizes& sizes);

}  // namespace stretto
