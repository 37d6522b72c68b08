#pragma once

#include <fmt/format.h>

#include <string>

namespace stretto {

/// The text form of a streamed bf16 product without prologue or epilogue: y[m, n] = x[m, k] * w[n, k]; x, w and y name
/// buffers.
inline std::string product_region(const std::string& id, std::int64_t m, std::int64_t n, std::int64_t k,
                                  const std::string& x, const std::string& w, const std::string& y) {
    const std::int64_t row = m == 1 ? 0 : k;
    const std::int64_t result_row = m == 1 ? 0 : n;
    return fmt::format(
        "region {0} = matmul [1, {1}, {2}, {3}] bf16 streamed \"{5}\" {{\n"
        "    a {{ a0 = {4} : bf16 [1:0, {1}:{7}, 1:0, {3}:1]  x0 = load a0 : bf16 }}\n"
        "    weight {5} : bf16 [1:0, {1}:0, {2}:{3}, {3}:1]\n"
        "    store {6} : bf16 [1:0, {1}:{8}, {2}:1, {3}:0] = {{ x0 = acc 0 : f32 }}\n"
        "}}\n",
        id, m, n, k, x, w, y, row, result_row);
}

}  // namespace stretto
