#pragma once

#include <cstddef>
#include <cstdint>

/// The part of the CUDA driver API that Stretto uses, declared here so that building Stretto needs no CUDA toolkit.
/// Names and numbers are those of cuda.h.
namespace stretto::cuda {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;

/// CUlaunchAttribute.
struct LaunchAttribute {
    enum Id : int { ProgrammaticStreamSerialization = 6 };
    Id id{};
    int padding = 0;
    int value = 0;
    char rest[60] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig.
struct LaunchConfig {
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    Stream stream = nullptr;
    LaunchAttribute* attributes = nullptr;
    unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

enum class DeviceAttribute : int {
    MultiprocessorCount = 16,
    ComputeCapabilityMajor = 75,
    ComputeCapabilityMinor = 76,
    CooperativeLaunch = 95,
    MaxSharedMemoryPerBlockOptin = 97,
};

enum class FunctionAttribute : int {
    MaxDynamicSharedSizeBytes = 8,
};

/// Functions of libcuda.so.1. Results are not checked: wrap calls in `check`.
struct Driver {
    Result (*init)(unsigned flags);
    Result (*error_name)(Result, const char** name);
    Result (*error_string)(Result, const char** text);
    Result (*device_count)(int* count);
    Result (*device_get)(Device*, int ordinal);
    Result (*device_attribute)(int* value, DeviceAttribute, Device);
    Result (*primary_context_retain)(Context*, Device);
    Result (*context_current)(Context*);
    Result (*context_set)(Context);
    Result (*context_device)(Device*);
    Result (*memory_allocate)(DevicePointer*, std::size_t bytes);
    Result (*memory_free)(DevicePointer);
    Result (*host_allocate)(void** address, std::size_t bytes);
    Result (*host_free)(void* address);
    Result (*memory_info)(std::size_t* free, std::size_t* total);
    Result (*copy_to_device)(DevicePointer, const void* source, std::size_t bytes);
    Result (*copy_to_host)(void* target, DevicePointer, std::size_t bytes);
    Result (*memory_set)(DevicePointer, unsigned char value, std::size_t bytes);
    Result (*module_load)(Module*, const void* image);
    Result (*module_unload)(Module);
    Result (*module_function)(Function*, Module, const char* name);
    Result (*function_set_attribute)(Function, FunctionAttribute, int value);
    Result (*occupancy)(int* blocks, Function, int block_threads, std::size_t dynamic_shared_bytes);
    Result (*launch_cooperative)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 Stream, void** parameters);
    Result (*launch)(const LaunchConfig*, Function, void** parameters, void** extra);
    Result (*stream_synchronize)(Stream);
};

/// Opens the driver once. Throws UserError if there is none, or no device.
[[nodiscard]] const Driver& driver();

/// Is there a driver and a device that Stretto's kernels run on (compute capability 8.0 or newer)?
[[nodiscard]] bool available();

/// Throws RunError naming the call and the driver's error unless `result` is success.
void check(Result result, const char* call);

/// Makes the current context current, or device 0's primary one (the context of PyTorch) where there is none; returns
/// its device.
[[nodiscard]] Device use_context();

[[nodiscard]] int attribute(DeviceAttribute which, Device device);

}  // namespace stretto::cuda
