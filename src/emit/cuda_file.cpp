#include "emit/cuda_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace stretto {
namespace {

constexpr std::string_view kListBegin = "using Kinds = KindList<";
constexpr std::string_view kListEnd = ">;";
constexpr std::string_view kSeparator = ", ";

/// Where an emitted file lists its kinds: begin and end.
std::pair<std::size_t, std::size_t> list_of_kinds(const std::string& source) {
    const std::size_t begin = source.find(kListBegin) + kListBegin.size();
    return {begin, source.find(kListEnd, begin)};
}

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
    if (functor.words) fmt::format_to(to, "{}words(operands.words())", separator);
    out += " {}\n";
}

/// `ready`: do all words have the launch's tag? `missing`: the operand of the first that has not.
void print_struct(std::string& out, const CudaStruct& early) {
    auto to = std::back_inserter(out);
    fmt::format_to(to, "    struct {} {{\n        static constexpr bool kWords = {};\n", early.name,
                   !early.words.empty());
    for (const CudaMember& member : early.members)
        fmt::format_to(to, "        {} {};\n", member.type, member.name);
    if (!early.words.empty()) {
        std::string ready;
        std::string missing;
        for (const CudaStruct::Word& word : early.words) {
            fmt::format_to(std::back_inserter(ready), "{}{}.ready(tag)", ready.empty() ? "" : " && ",
                           word.member);
            fmt::format_to(std::back_inserter(missing), "!{}.ready(tag) ? {}u : ", word.member, word.slot);
        }
        fmt::format_to(to, "        __device__ __forceinline__ bool ready(U32 tag) const {{ return {}; }}\n",
                       ready);
        fmt::format_to(
            to,
            "        __device__ __forceinline__ U32 missing(U32 tag) const {{ return {}kNoneMissing; }}\n",
            missing);
    }
    out += "    };\n";
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
    for (const CudaStruct& nested : functor.structs) print_struct(out, nested);
    for (const CudaMember& pointer : functor.pointers)
        fmt::format_to(to, "    {}* {};\n", pointer.type, pointer.name);
    if (functor.words) out += "    Words words;\n";
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
    std::vector<std::string> kinds;
    for (const CudaKind& kind : file.kinds) {
        kinds.push_back(fmt::format("{}<{}>", kind.task_template, kind.functor.name));
    }
    fmt::format_to(to, "{}{}{}", kListBegin, fmt::join(kinds, kSeparator), kListEnd);
    fmt::format_to(to, "\nusing Config = KernelConfig<{}, {}, {}, {}>;\n\n", file.warps, file.slots,
                   file.slot_bytes, file.load_gap);
    fmt::format_to(to,
                   "extern \"C\" __global__ void __launch_bounds__(Config::kAllThreads, 1)\n"
                   "{}(const __grid_constant__ stretto::abi::Launch launch) {{\n"
                   "    run<Kinds, Config>(launch);\n"
                   "}}\n",
                   kKernelName);
    return out;
}

std::vector<std::string> listed_kinds(const std::string& source) {
    const auto [begin, end] = list_of_kinds(source);
    std::vector<std::string> kinds;
    for (std::size_t at = begin; at < end;) {
        const std::size_t next = std::min(source.find(kSeparator, at), end);
        kinds.push_back(source.substr(at, next - at));
        at = next + kSeparator.size();
    }
    return kinds;
}

std::string with_kinds(const std::string& source, const std::vector<std::string>& kinds) {
    const auto [begin, end] = list_of_kinds(source);
    return fmt::format("{}{}{}", source.substr(0, begin), fmt::join(kinds, kSeparator), source.substr(end));
}

}  // namespace stretto
