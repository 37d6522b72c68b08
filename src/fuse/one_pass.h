#pragma once

#include "base/machine.h"
#include "graph/graph.h"

namespace stretto {

/// A product of few rows with a large matrix, a softmax along its columns, and a product of what comes from that with the same
/// matrix, as in the loss of a language model and the gradient of its hidden state: of the product's results nobody wants more
/// than each row's largest one, the sum of their exponentials less that, the mix of the matrix's rows with these exponentials as
/// weights, and single results. So it becomes an attention of which keys and values are the matrix, in parts, which reads the
/// matrix once (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The second product may take any sum of exponentials of
/// results, each less a value of its row and times another, and of terms that are zero but in one column: these take that row of the matrix.
/// Only the roundings differ: results are not rounded before the softmax, and its weights not before the mix.
/// Nothing changes where anybody else reads results, as for a gradient of the matrix, or where the matrix is so small that too few
/// workers would have a part of it.
/// Requires: check(graph).  Ensures: check(result).
[[nodiscard]] Graph in_one_pass(Graph graph, const Machine& machine);

}  // namespace stretto
