#pragma once

#include <span>

namespace stretto {

/// A header that emitted programs include, by the name they include it with.
struct DeviceHeader {
    const char* name;
    const char* text;
};

/// All of device/ and abi/, embedded when Stretto is built.
[[nodiscard]] std::span<const DeviceHeader> device_headers();

}  // namespace stretto
