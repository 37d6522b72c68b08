#include "emit/scratch.h"

#include "abi/abi.h"

namespace stretto {
namespace {

std::int64_t bytes_of(DType type) { return static_cast<std::int64_t>(size_of(type)); }

}  // namespace

std::int64_t device_scratch_bytes(const Region& region, const std::array<Range, 4>& tile,
                                  std::int64_t warps) {
    if (const auto* matmul = std::get_if<MatMulRegion>(&region.body)) {
        return abi::matmul_scratch({.m = tile[1].size(),
                                    .n = tile[2].size(),
                                    .k = matmul->space[3],
                                    .left_bytes = bytes_of(matmul->a_type),
                                    .acc_bytes = matmul->a_type == DType::F64 ? 8 : 4,
                                    .weights = static_cast<long long>(matmul->weights.size()),
                                    .stats = static_cast<long long>(matmul->stats.size()),
                                    .streamed = matmul->streamed},
                                   warps);
    }
    if (const auto* attention = std::get_if<AttentionRegion>(&region.body)) {
        return abi::attention_scratch(attention->group * attention->space[2], attention->space[4], warps);
    }
    return 0;
}

}  // namespace stretto
