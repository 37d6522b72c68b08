#pragma once

#include <map>
#include <random>

#include "graph/graph.h"
#include "support/oracle.h"

namespace stretto {

/// A linear layer "w" [columns, hidden] of "h" [rows, hidden], the mean of its cross entropy with "labels" [rows] where these
/// are not -100, and the gradients "dh", "dw" and, with a bias, "db".
struct CrossEntropy {
    std::int64_t rows = 24;
    std::int64_t hidden = 16;
    std::int64_t columns = 300;
    DType type = DType::F32;
    bool biased = false;
    double cap = 0;        ///< logits are cap * tanh(logits / cap), where that is not 0
    double smoothing = 0;  ///< share of the loss that is the mean over all columns
};

[[nodiscard]] Graph cross_entropy_graph(const CrossEntropy& of);

/// Random values of its type for each input; some labels are -100, one of the first and of the last column.
[[nodiscard]] std::map<std::string, Elements> cross_entropy_inputs(const CrossEntropy& of, unsigned seed);

}  // namespace stretto
