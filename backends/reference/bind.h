#pragma once

#include <memory>
#include <vector>

#include "backends/executor.h"

namespace stretto {

/// Memory for a plan's arena, filled with a pattern that is NaN in every float type, but for tagged buffers: their words
/// are zero, which is the tag of no iteration.
class Arena {
public:
    explicit Arena(const Plan& plan);

    [[nodiscard]] std::byte* data() { return bytes_.data(); }
    void poison();

private:
    std::vector<std::byte> bytes_;
    std::vector<Range> words_;  ///< bytes of tagged buffers
};

/// Base address of every buffer: bound ones, constants in the plan, and arena buffers at their offsets. Throws RunError
/// naming the buffers that have no binding.
[[nodiscard]] std::vector<std::byte*> base_addresses(const Plan& plan, const Bindings& bindings,
                                                     std::byte* arena);

}  // namespace stretto
