#pragma once

#include <span>
#include <string_view>

namespace stretto {

/// One file of machines/, as it was when the library was built.
struct MachineFile {
    std::string_view name;  ///< without folder and extension
    std::string_view json;
};

/// Sorted by name. Defined in a source that cmake/StrettoEmbed.cmake writes.
[[nodiscard]] std::span<const MachineFile> machine_files();

}  // namespace stretto
