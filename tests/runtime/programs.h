#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/program.h"
#include "runtime/session.h"

namespace stretto::test {

/// A tensor of F32 values.
[[nodiscard]] HostTensor tensor_of(const std::vector<float>& values, Shape shape);
[[nodiscard]] std::vector<float> floats_of(const HostTensor& tensor);

/// A machine whose programs run on the backend.
[[nodiscard]] Machine machine_for(Backend backend);

/// `y = x * weight^T + bias` with random parameters, x: f32[3, 20], y: f32[3, 7], compiled for the backend.
[[nodiscard]] Program linear_program(Backend backend = Backend::Cpu);

/// A running sum: state `total` (f32[4], first value 10, 20, 30, 40) becomes total + x; y is the new total.
[[nodiscard]] Program running_sum_program(Backend backend = Backend::Cpu);

/// y = x * a + b, where the parameters a and b are one piece of memory.
[[nodiscard]] Program tied_program();

}  // namespace stretto::test
