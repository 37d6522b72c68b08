#pragma once

#include <string>

#include "pipeline/pipeline.h"
#include "runtime/program.h"

namespace stretto::cli {

/// Is `path` an exported PyTorch program (as opposed to a compiled one)?
[[nodiscard]] bool is_exported(const std::string& path);

/// Compiles `.pt2`, loads `.stretto`.
[[nodiscard]] Program program_from(const std::string& path, const CompileOptions& options);

}  // namespace stretto::cli
