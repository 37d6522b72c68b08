#include "backends/cuda/device_memory.h"

#include <algorithm>

namespace stretto::cuda {

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) check(driver().memory_allocate(&address_, bytes), "cuMemAlloc");
}

DeviceMemory::DeviceMemory(std::span<const std::byte> contents) : DeviceMemory(contents.size()) {
    if (bytes_ > 0) check(driver().copy_to_device(address_, contents.data(), bytes_), "cuMemcpyHtoD");
}

DeviceMemory::~DeviceMemory() {
    // Fails only if the context is gone, and the memory with it.
    if (address_ != 0) static_cast<void>(driver().memory_free(address_));
}

void DeviceMemory::clear() const {
    if (bytes_ > 0) check(driver().memory_set(address_, 0, bytes_), "cuMemsetD8");
}

std::shared_ptr<void> allocate_on_host(std::size_t bytes) {
    static_cast<void>(use_context());
    void* address = nullptr;
    check(driver().host_allocate(&address, std::max<std::size_t>(bytes, 1)), "cuMemAllocHost");
    return {address, [](void* each) { static_cast<void>(driver().host_free(each)); }};
}

std::size_t free_memory() {
    static_cast<void>(use_context());
    std::size_t free = 0;
    std::size_t total = 0;
    check(driver().memory_info(&free, &total), "cuMemGetInfo");
    return free;
}

void finish_copies() { check(driver().stream_synchronize(nullptr), "cuStreamSynchronize"); }

}  // namespace stretto::cuda
