#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "backends/cuda/driver.h"

namespace stretto::cuda {

/// Memory of the current context's device, freed with the object.
class DeviceMemory {
public:
    DeviceMemory() = default;
    /// Contents are not defined. Zero bytes allocate nothing.
    explicit DeviceMemory(std::size_t bytes);
    explicit DeviceMemory(std::span<const std::byte> contents);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
    DeviceMemory& operator=(DeviceMemory&& other) noexcept {
        swap(other);
        return *this;
    }

    [[nodiscard]] DevicePointer address() const { return address_; }
    [[nodiscard]] std::size_t size() const { return bytes_; }
    template <class T>
    [[nodiscard]] T* as() const {
        return reinterpret_cast<T*>(address_);
    }

    void clear() const;  ///< Sets all bytes to zero.

private:
    void swap(DeviceMemory& other) noexcept {
        std::swap(address_, other.address_);
        std::swap(bytes_, other.bytes_);
    }

    DevicePointer address_ = 0;
    std::size_t bytes_ = 0;
};

/// Memory of the host that kernels reach at the same address.
[[nodiscard]] std::shared_ptr<void> allocate_on_host(std::size_t bytes);

/// Bytes of the current context's device that nobody has allocated.
[[nodiscard]] std::size_t free_memory();

/// Waits for copies and fills of this thread's default stream: kernels on other streams do not.
void finish_copies();

}  // namespace stretto::cuda
