#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stretto::cuda {

/// CUDA's run-time compiler, opened once from (in this order) STRETTO_NVRTC (a file), the paths given to
/// add_nvrtc_path, the loader's search path, and the usual places of a toolkit.
class Nvrtc {
public:
    struct Result {
        std::vector<std::byte> cubin;
        std::string log;
        bool ok = false;
    };

    /// Throws UserError saying where it looked if no library can be found.
    [[nodiscard]] static const Nvrtc& get();
    [[nodiscard]] static bool available();

    /// e.g. "13.0".
    [[nodiscard]] const std::string& version() const { return version_; }

    /// Compiles `source` against the embedded device headers.
    [[nodiscard]] Result compile(const std::string& source, const std::vector<std::string>& options) const;

private:
    Nvrtc();

    struct Functions;
    const Functions* functions_ = nullptr;
    std::string version_;
    bool keeps_cache_ = false;
};

/// Adds a place to look for NVRTC: a library file, or a folder that holds one (as in the pip wheel
/// nvidia-cuda-nvrtc: <site-packages>/nvidia/cu13/lib). Has an effect before the first use only.
void add_nvrtc_path(std::string path);

}  // namespace stretto::cuda
