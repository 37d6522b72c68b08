#include "tensor_reference.h"

#include <memory>
#include <utility>

#include "base/box.h"
#include "base/dtype.h"

namespace stretto::python {

std::map<std::string, HostTensor> host_tensors(const TensorReferences& references) {
    std::map<std::string, HostTensor> tensors;
    for (const auto& [name, reference] : references) {
        const auto& [dtype, shape, address] = reference;
        HostTensor tensor;
        tensor.dtype = parse_dtype(dtype);
        tensor.shape = shape;
        tensor.size = static_cast<std::size_t>(volume(shape)) * size_of(tensor.dtype);
        tensor.bytes = {std::shared_ptr<const std::byte>(), reinterpret_cast<const std::byte*>(address)};
        tensors.emplace(name, std::move(tensor));
    }
    return tensors;
}

}  // namespace stretto::python
