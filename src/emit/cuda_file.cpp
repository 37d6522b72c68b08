#include "emit/cuda_file.h"

#include <fmt/format.h>

#include <iterator>

namespace stretto {
namespace {

std::string parameter_list(const std::vector<CudaMember>& parameters) {
    std::string text;
    for (const CudaMember& parameter : parameters) {
        fmt::format_to(std::back_inserter(text), "{}{} {}", text.empty() ? "" : ", ", parameter.type,
                       parameter.name);
    }
    return text;
}

void print_constructor(std::string& out, const CudaFunctor& functor) {
    auto to = std::back_inserter(out);
    fmt::format_to(to, "    __device__ explicit {}([[maybe_unused]] const Operands& operands)", functor.name);
    const char* separator = "\n        : ";
    for (const CudaMember& pointer : functor.pointers) {
        fmt::format_to(to, "{}{}(operands.at<{}>({}))", separator, pointer.name, pointer.type, pointer.value);
        separator = ", ";
    }
    out += " {}\n";
}

}  // namespace

std::string print(const CudaFunctor& functor) {
    std::string out;
    auto to = std::back_inserter(out);
    fmt::format_to(to, "struct {} {{\n", functor.name);
    for (const CudaMember& alias : functor.aliases) {
        fmt::format_to(to, "    using {} = {};\n", alias.name, alias.type);
    }
    for (const CudaMember& constant : functor.constants) {
        fmt::format_to(to, "    static constexpr {} {} = {};\n", constant.type, constant.name,
                       constant.value);
    }
    for (const CudaStruct& nested : functor.structs) {
        fmt::format_to(to, "    struct {} {{\n", nested.name);
        for (const CudaMember& member : nested.members) {
            fmt::format_to(to, "        {} {};\n", member.type, member.name);
        }
        out += "    };\n";
    }
    for (const CudaMember& pointer : functor.pointers)
        fmt::format_to(to, "    {}* {};\n", pointer.type, pointer.name);
    print_constructor(out, functor);
    for (const CudaFunction& function : functor.functions) {
        fmt::format_to(to, "    __device__ __forceinline__ {} {}({}) const {{\n", function.result,
                       function.name, parameter_list(function.parameters));
        for (const std::string& statement : function.body) fmt::format_to(to, "        {}\n", statement);
        out += "    }\n";
    }
    out += "};\n";
    return out;
}

std::string print(const CudaFile& file) {
    std::string out = "#include <stretto/program.h>\n\nusing namespace stretto::device;\n\n";
    auto to = std::back_inserter(out);
    for (const CudaKind& kind : file.kinds) fmt::format_to(to, "{}\n", print(kind.functor));
    out += "using Kinds = KindList<";
    const char* separator = "";
    for (const CudaKind& kind : file.kinds) {
        fmt::format_to(to, "{}{}<{}>", separator, kind.task_template, kind.functor.name);
        separator = ", ";
    }
    fmt::format_to(to, ">;\nusing Config = KernelConfig<{}, {}, {}>;\n\n", file.warps, file.slots,
                   file.slot_bytes);
    fmt::format_to(to,
                   "extern \"C\" __global__ void __launch_bounds__(Config::kThreads + 32, 1)\n"
                   "{}(const __grid_constant__ stretto::abi::Launch launch) {{\n"
                   "    run<Kinds, Config>(launch);\n"
                   "}}\n",
                   kKernelName);
    return out;
}

}  // namespace stretto
