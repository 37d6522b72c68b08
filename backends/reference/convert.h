#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/reference/number.h"

namespace stretto {

/// Converts `lanes` values between domains: truncation toward zero into integers.
void convert_lanes(const void* from, Domain from_domain, void* to, Domain to_domain, std::int64_t lanes);

/// Reads `count` elements of `type` from `base`, `stride` elements apart, into lanes of `domain`.
void read_lanes(const std::byte* base, DType type, std::int64_t stride, std::int64_t count, void* out,
                Domain domain);

/// Rounds lanes of `domain` to `type` and writes them to `base`, `stride` elements apart.
void write_lanes(const void* lanes, Domain domain, std::byte* base, DType type, std::int64_t stride,
                 std::int64_t count);

/// Bytes of one lane.
[[nodiscard]] inline std::int64_t lane_size(Domain domain) { return domain == Domain::F32 ? 4 : 8; }

}  // namespace stretto
