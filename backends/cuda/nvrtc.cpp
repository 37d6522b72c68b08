#include "backends/cuda/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include "backends/cuda/device_headers.h"
#include "backends/cuda/shared_library.h"
#include "base/error.h"

namespace stretto::cuda {

using Program = struct ProgramTag*;

/// Names and signatures of nvrtc.h.
struct Nvrtc::Functions {
    int (*version)(int* major, int* minor);
    int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                  const char* const* names);
    int (*destroy)(Program*);
    int (*compile)(Program, int options, const char* const* list);
    int (*cubin_size)(Program, std::size_t*);
    int (*cubin)(Program, char*);
    int (*log_size)(Program, std::size_t*);
    int (*log)(Program, char*);
    const char* (*error_string)(int);
};

namespace {

constexpr const char* kFileNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

std::vector<std::string>& added_paths() {
    static std::vector<std::string> paths;
    return paths;
}

std::vector<std::string> candidates() {
    std::vector<std::string> out;
    if (const char* file = std::getenv("STRETTO_NVRTC"); file != nullptr && *file != '\0')
        out.emplace_back(file);
    const auto add_folder = [&](const std::string& folder) {
        for (const char* name : kFileNames) out.push_back(folder + "/" + name);
    };
    for (const std::string& path : added_paths()) {
        if (path.find(".so") != std::string::npos) {
            out.push_back(path);
        } else {
            add_folder(path);
        }
    }
    for (const char* name : kFileNames) out.emplace_back(name);
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
        if (const char* home = std::getenv(variable); home != nullptr && *home != '\0') {
            add_folder(std::string(home) + "/lib64");
        }
    }
    add_folder("/usr/local/cuda/lib64");
    return out;
}

const SharedLibrary& library() {
    static const SharedLibrary once(candidates());
    return once;
}

}  // namespace

void add_nvrtc_path(std::string path) { added_paths().push_back(std::move(path)); }

bool Nvrtc::available() { return library().open(); }

const Nvrtc& Nvrtc::get() {
    static const Nvrtc once;
    return once;
}

Nvrtc::Nvrtc() {
    const SharedLibrary& from = library();
    if (!from.open()) {
        throw UserError(
            fmt::format("NVRTC, CUDA's run-time compiler, was not found; looked for: {}. Next: pip install "
                        "nvidia-cuda-nvrtc, or set STRETTO_NVRTC to the file of libnvrtc.so",
                        fmt::join(candidates(), ", ")));
    }
    static Functions bound{};
    from.bind(bound.version, "nvrtcVersion");
    from.bind(bound.create, "nvrtcCreateProgram");
    from.bind(bound.destroy, "nvrtcDestroyProgram");
    from.bind(bound.compile, "nvrtcCompileProgram");
    from.bind(bound.cubin_size, "nvrtcGetCUBINSize");
    from.bind(bound.cubin, "nvrtcGetCUBIN");
    from.bind(bound.log_size, "nvrtcGetProgramLogSize");
    from.bind(bound.log, "nvrtcGetProgramLog");
    from.bind(bound.error_string, "nvrtcGetErrorString");
    functions_ = &bound;
    int major = 0;
    int minor = 0;
    bound.version(&major, &minor);
    version_ = fmt::format("{}.{}", major, minor);
    keeps_cache_ = major > 12 || (major == 12 && minor >= 9);
}

Nvrtc::Result Nvrtc::compile(const std::string& source, const std::vector<std::string>& options) const {
    std::vector<const char*> names;
    std::vector<const char*> texts;
    for (const DeviceHeader& header : device_headers()) {
        names.push_back(header.name);
        texts.push_back(header.text);
    }
    std::vector<const char*> arguments;
    for (const std::string& option : options) arguments.push_back(option.c_str());
    // A program from NVRTC's own cache comes without the resource report.
    if (keeps_cache_) arguments.push_back("--no-cache");

    const Functions& f = *functions_;
    Program program = nullptr;
    const auto checked = [&](int result, const char* call) {
        if (result != 0) throw RunError(fmt::format("{} failed: {}", call, f.error_string(result)));
    };
    checked(f.create(&program, source.c_str(), "program.cu", static_cast<int>(names.size()), texts.data(),
                     names.data()),
            "nvrtcCreateProgram");
    const auto destroy = [&f](Program* p) { f.destroy(p); };
    const std::unique_ptr<Program, decltype(destroy)> guard(&program, destroy);

    Result result;
    result.ok = f.compile(program, static_cast<int>(arguments.size()), arguments.data()) == 0;
    std::size_t size = 0;
    checked(f.log_size(program, &size), "nvrtcGetProgramLogSize");
    if (size > 1) {
        result.log.resize(size);
        checked(f.log(program, result.log.data()), "nvrtcGetProgramLog");
        result.log.resize(size - 1);  // the terminating zero
    }
    if (!result.ok) return result;
    checked(f.cubin_size(program, &size), "nvrtcGetCUBINSize");
    result.cubin.resize(size);
    checked(f.cubin(program, reinterpret_cast<char*>(result.cubin.data())), "nvrtcGetCUBIN");
    return result;
}

}  // namespace stretto::cuda
