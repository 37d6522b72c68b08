#include "backends/cuda/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "backends/cuda/device_headers.h"
#include "backends/cuda/kernel_cache.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"
#include "base/hash.h"
#include "emit/cuda_file.h"

namespace stretto {
namespace {

/// Products and sums are contracted only where the kinds say so, as in their CPU twins. The functions of abi.h carry no
/// execution space, so that host compilers can read them.
std::vector<std::string> compiler_options(const std::string& arch, const KernelOptions& kernel) {
    std::vector<std::string> options{"--gpu-architecture=" + arch, "--std=c++20", "--fmad=false",
                                     "--ptxas-options=-v", "--device-as-default-execution-space"};
    if (kernel.traced) options.emplace_back("--define-macro=STRETTO_TRACED");
    if (kernel.apart) options.emplace_back("--define-macro=STRETTO_KINDS_APART");
    if (kernel.separate) options.emplace_back("--define-macro=STRETTO_SEPARATE_KERNELS");
    return options;
}

std::string cache_key(const std::string& source, const std::vector<std::string>& options,
                      const std::string& version) {
    std::string everything = fmt::format("nvrtc {} {}\n", version, fmt::join(options, " "));
    for (const DeviceHeader& header : device_headers())
        everything += fmt::format("{}\n{}\n", header.name, header.text);
    return content_hash(everything + source);
}

/// The number before `label` in the compiler's resource report; 0 where it says nothing.
std::int32_t reported(const std::string& log, const std::string& label) {
    const std::size_t end = log.find(label);
    if (end == std::string::npos) return 0;
    std::size_t begin = end;
    while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
    std::int32_t value = 0;
    std::from_chars(log.data() + begin, log.data() + end, value);
    return value;
}

std::int32_t spills(const std::string& report) {
    return reported(report, " bytes spill stores") + reported(report, " bytes spill loads");
}

/// Kinds that are functions of their own save their caller's registers, which the compiler counts as spills without a stack
/// frame; and the kernel keeps its own registers in memory while it calls them.
void read_report(CompiledKernel& kernel) {
    kernel.registers = reported(kernel.log, " registers");
    std::vector<std::string> reports;
    constexpr std::string_view kHead = "Function properties for ";
    for (std::size_t at = kernel.log.find(kHead); at != std::string::npos;) {
        const std::size_t next = kernel.log.find(kHead, at + 1);
        reports.push_back(kernel.log.substr(at + kHead.size(), next - at));
        at = next;
    }
    for (const std::string& report : reports) {
        const std::int32_t frame = reported(report, " bytes stack frame");
        const bool calls = reports.size() > 1 && (frame == 0 || report.rfind(kKernelName, 0) == 0);
        kernel.spill_bytes += calls ? 0 : spills(report);
        kernel.stack_bytes = std::max(kernel.stack_bytes, frame);
    }
}

CompiledKernel build_once(const Emission& emission, const std::string& arch, const KernelOptions& options) {
    const cuda::Nvrtc& nvrtc = cuda::Nvrtc::get();
    const std::vector<std::string> arguments = compiler_options(arch, options);
    const std::string key = cache_key(emission.source, arguments, nvrtc.version());
    const cuda::KernelCache cache;
    CompiledKernel kernel;
    if (options.use_cache) {
        if (auto entry = cache.find(key)) {
            kernel.cubin = std::move(entry->cubin);
            kernel.log = std::move(entry->log);
            kernel.from_cache = true;
            read_report(kernel);
            return kernel;
        }
    }
    cuda::Nvrtc::Result result = nvrtc.compile(emission.source, arguments);
    if (!result.ok) {
        throw InternalError(
            fmt::format("the emitted program does not compile for {}:\n{}", arch, result.log));
    }
    kernel.cubin = std::move(result.cubin);
    kernel.log = std::move(result.log);
    if (options.use_cache) cache.store(key, {kernel.cubin, kernel.log}, emission.source);
    read_report(kernel);
    return kernel;
}

/// The text of the header that says which kinds run ahead.
std::string_view program_header() {
    for (const DeviceHeader& header : device_headers()) {
        if (std::string_view(header.name) == "stretto/program.h") return header.text;
    }
    throw InternalError("the header of the device program is not embedded");
}

/// Those kinds that the compiler slows down where they are alone. Where one is, so are the products of all that share its function.
std::vector<std::string> slow_alone(const Emission& emission, const std::string& arch,
                                    const KernelOptions& options) {
    const std::vector<std::string> ahead = kinds_that_run_ahead(program_header());
    std::vector<std::string> slow;
    for (const std::string& kind : listed_kinds(emission.source)) {
        const auto named = [&](const std::string& name) { return kind.starts_with(name + '<'); };
        if (std::none_of(ahead.begin(), ahead.end(), named)) continue;
        Emission alone = emission;
        alone.source = with_kinds(emission.source, {kind});
        if (!losses_in(build_once(alone, arch, options).log).empty()) slow.push_back(kind);
    }
    return slow;
}

std::vector<std::string> warnings_of(const CompiledKernel& kernel, const Emission& emission,
                                     const std::string& arch, const KernelOptions& options) {
    std::vector<std::string> warnings;
    const std::vector<std::string> losses = losses_in(kernel.log);
    if (losses.empty()) return warnings;
    const std::vector<std::string> slow = slow_alone(emission, arch, options);
    const std::string kinds =
        slow.empty() ? "no kind alone, but all of them together" : fmt::format("{}", fmt::join(slow, ", "));
    for (const std::string& loss : losses) {
        warnings.push_back(
            fmt::format("products of this program run slower on {} than they should ({}): {}\n"
                        "  results are right; please report it with the program's source",
                        arch, kinds, loss));
    }
    return warnings;
}

/// A call costs a task less than spills do.
CompiledKernel build(const Emission& emission, const std::string& arch, const KernelOptions& options) {
    CompiledKernel kernel = build_once(emission, arch, options);
    if (kernel.spill_bytes == 0 || options.apart || options.separate) return kernel;
    KernelOptions apart = options;
    apart.apart = true;
    CompiledKernel other = build_once(emission, arch, apart);
    return other.spill_bytes < kernel.spill_bytes ? other : kernel;
}

}  // namespace

CompiledKernel compile_kernel(const Emission& emission, const std::string& arch,
                              const KernelOptions& options) {
    CompiledKernel kernel = build(emission, arch, options);
    if (kernel.spill_bytes > 0 && !options.allow_spills) {
        throw InternalError(
            fmt::format("the program's kinds spill {} bytes of registers to memory on {} ({} registers a "
                        "thread): plan smaller "
                        "tiles, or allow spills to measure anyway",
                        kernel.spill_bytes, arch, kernel.registers));
    }
    kernel.warnings = warnings_of(kernel, emission, arch, options);
    return kernel;
}

std::vector<std::string> losses_in(const std::string& log) {
    constexpr std::string_view kLoss = "Potential Performance Loss: ";
    std::vector<std::string> losses;
    for (std::size_t at = log.find(kLoss); at != std::string::npos; at = log.find(kLoss, at)) {
        at += kLoss.size();
        const std::string text = log.substr(at, log.find('\n', at) - at);
        if (std::find(losses.begin(), losses.end(), text) == losses.end()) losses.push_back(text);
    }
    return losses;
}

std::vector<std::string> kinds_that_run_ahead(std::string_view program_header) {
    constexpr std::string_view kOwn = "bool kRunsAhead<";
    std::vector<std::string> kinds;
    for (std::size_t at = program_header.find(kOwn); at != std::string_view::npos;
         at = program_header.find(kOwn, at)) {
        at += kOwn.size();
        kinds.emplace_back(program_header.substr(at, program_header.find('<', at) - at));
    }
    return kinds;
}

}  // namespace stretto
