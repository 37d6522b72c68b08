#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace stretto::cuda {

/// The structs of abi/ that an emission holds as bytes.
template <class T>
[[nodiscard]] std::vector<T> items_of(const std::vector<std::byte>& bytes) {
    std::vector<T> items(bytes.size() / sizeof(T));
    if (!items.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
    return items;
}

}  // namespace stretto::cuda
