#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "import/import.h"

namespace stretto::python {

/// dtype, shape and address of a tensor that Python keeps alive. The address is 0 where the host cannot read it.
using TensorReference = std::tuple<std::string, std::vector<std::int64_t>, std::uintptr_t>;

using TensorReferences = std::map<std::string, TensorReference>;

/// The tensors behind the references. Python owns the memory and outlives the call: no ownership is taken.
[[nodiscard]] std::map<std::string, HostTensor> host_tensors(const TensorReferences& references);

}  // namespace stretto::python
