#include "backends/cuda/driver.h"

#include <fmt/format.h>

#include "backends/cuda/shared_library.h"
#include "base/error.h"

namespace stretto::cuda {
namespace {

struct OpenDriver {
    Driver functions{};
    std::string problem;  ///< empty if the driver can be used
};

void bind_all(Driver& d, const SharedLibrary& library) {
    library.bind(d.init, "cuInit");
    library.bind(d.error_name, "cuGetErrorName");
    library.bind(d.error_string, "cuGetErrorString");
    library.bind(d.device_count, "cuDeviceGetCount");
    library.bind(d.device_get, "cuDeviceGet");
    library.bind(d.device_attribute, "cuDeviceGetAttribute");
    library.bind(d.primary_context_retain, "cuDevicePrimaryCtxRetain");
    library.bind(d.context_current, "cuCtxGetCurrent");
    library.bind(d.context_set, "cuCtxSetCurrent");
    library.bind(d.context_device, "cuCtxGetDevice");
    library.bind(d.memory_allocate, "cuMemAlloc_v2");
    library.bind(d.memory_free, "cuMemFree_v2");
    library.bind(d.host_allocate, "cuMemAllocHost_v2");
    library.bind(d.host_free, "cuMemFreeHost");
    library.bind(d.memory_info, "cuMemGetInfo_v2");
    library.bind(d.copy_to_device, "cuMemcpyHtoD_v2");
    library.bind(d.copy_to_host, "cuMemcpyDtoH_v2");
    library.bind(d.memory_set, "cuMemsetD8_v2");
    library.bind(d.module_load, "cuModuleLoadData");
    library.bind(d.module_unload, "cuModuleUnload");
    library.bind(d.module_function, "cuModuleGetFunction");
    library.bind(d.function_set_attribute, "cuFuncSetAttribute");
    library.bind(d.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    library.bind(d.launch_cooperative, "cuLaunchCooperativeKernel");
    library.bind(d.launch, "cuLaunchKernelEx");
    library.bind(d.stream_synchronize, "cuStreamSynchronize");
}

OpenDriver open_driver() {
    OpenDriver out;
    const SharedLibrary library({"libcuda.so.1", "libcuda.so"});
    if (!library.open()) {
        out.problem =
            "no CUDA driver (libcuda.so.1) on this computer: use the cpu backend, or install the NVIDIA "
            "driver";
        return out;
    }
    bind_all(out.functions, library);
    int count = 0;
    if (out.functions.init(0) != 0 || out.functions.device_count(&count) != 0 || count == 0) {
        out.problem = "the CUDA driver finds no device: use the cpu backend, or check CUDA_VISIBLE_DEVICES";
    }
    return out;
}

const OpenDriver& opened() {
    static const OpenDriver once = open_driver();
    return once;
}

}  // namespace

const Driver& driver() {
    if (!opened().problem.empty()) throw UserError(opened().problem);
    return opened().functions;
}

bool available() {
    if (!opened().problem.empty()) return false;
    Device device = 0;
    return driver().device_get(&device, 0) == 0 &&
           attribute(DeviceAttribute::ComputeCapabilityMajor, device) >= 8;
}

void check(Result result, const char* call) {
    if (result == 0) return;
    const char* name = "unknown error";
    const char* text = "";
    opened().functions.error_name(result, &name);
    opened().functions.error_string(result, &text);
    throw RunError(fmt::format("{} failed: {} ({})", call, name, text));
}

Device use_context() {
    const Driver& d = driver();
    Context context = nullptr;
    check(d.context_current(&context), "cuCtxGetCurrent");
    Device device = 0;
    if (context != nullptr) {
        check(d.context_device(&device), "cuCtxGetDevice");
        return device;
    }
    check(d.device_get(&device, 0), "cuDeviceGet");
    check(d.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(d.context_set(context), "cuCtxSetCurrent");
    return device;
}

int attribute(DeviceAttribute which, Device device) {
    int value = 0;
    check(driver().device_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
}

}  // namespace stretto::cuda
