#pragma once

#include <cstdint>
#include <string>

#include "import/import.h"

namespace stretto {

/// Numbers that depend on the seed alone, never all the same: floats uniform in [-1, 1), integers from 0 to 9.
[[nodiscard]] HostTensor random_tensor(DType dtype, const Shape& shape, std::uint64_t seed);

/// The same numbers in another type: between floats, rounded to nearest even; between integers, where they fit.
/// Throws UserError for any other pair of types, and for an integer that does not fit.
[[nodiscard]] HostTensor converted(const HostTensor& tensor, DType dtype);

/// Reads a NumPy .npy file (row-major, little-endian). Throws UserError naming the file and what is wrong with it.
[[nodiscard]] HostTensor read_npy(const std::string& path);

/// Writes a NumPy .npy file. BF16, which NumPy lacks, is written as the same numbers in F32.
void write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace stretto
