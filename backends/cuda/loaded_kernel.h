#pragma once

#include <string>
#include <vector>

#include "backends/cuda/compile.h"
#include "backends/cuda/driver.h"

namespace stretto::cuda {

/// A kernel of the current context, unloaded with the object.
class LoadedKernel {
public:
    LoadedKernel(const CompiledKernel& kernel, const char* name) : warnings_(kernel.warnings) {
        check(driver().module_load(&module_, kernel.cubin.data()), "cuModuleLoadData");
        check(driver().module_function(&function_, module_, name), "cuModuleGetFunction");
    }
    ~LoadedKernel() { static_cast<void>(driver().module_unload(module_)); }
    LoadedKernel(const LoadedKernel&) = delete;
    LoadedKernel& operator=(const LoadedKernel&) = delete;

    [[nodiscard]] Function function() const { return function_; }
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

private:
    std::vector<std::string> warnings_;
    Module module_ = nullptr;
    Function function_ = nullptr;
};

}  // namespace stretto::cuda
