#include "backends/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"

namespace stretto {

SharedLibrary::SharedLibrary(const std::vector<std::string>& candidates) {
    for (const std::string& candidate : candidates) {
        handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) {
            path_ = candidate;
            return;
        }
    }
}

void* SharedLibrary::find(const char* symbol) const {
    void* address = dlsym(handle_, symbol);
    if (address == nullptr) {
        throw UserError(
            fmt::format("{} has no {}: it is too old; Stretto needs CUDA 12.1 or newer", path_, symbol));
    }
    return address;
}

}  // namespace stretto
