#include "import/schema.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "import/json_cursor.h"

namespace stretto::schema {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMajorVersion = 8;

Json parsed(std::string_view text, std::string_view document) {
    try {
        return Json::parse(text);
    } catch (const Json::parse_error& error) {
        throw UserError(fmt::format("{}: not valid JSON at byte {}", document, error.byte));
    }
}

/// A SymInt: a plain number, or nothing for a symbolic size.
std::optional<std::int64_t> static_size(const JsonCursor& at) {
    if (at.tag() == "as_int") return at.at("as_int").integer();
    return std::nullopt;
}

/// Larger counts of elements are damage, not tensors; below it offsets cannot overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

Shape sizes(const JsonCursor& at, std::string& symbol) {
    Shape out;
    std::int64_t product = 1;
    at.each([&](const JsonCursor& size) {
        const auto value = static_size(size);
        if (!value && symbol.empty()) {
            const JsonCursor expression = size.at("as_expr");
            symbol = expression.at("expr_str").text();
        }
        const std::int64_t extent = value.value_or(0);
        if (extent < 0 || (extent > 0 && product > kMostElements / extent)) size.fail("not a plausible size");
        if (extent > 0) product *= extent;
        out.push_back(extent);
    });
    return out;
}

Shape strides(const JsonCursor& at) {
    Shape out;
    at.each([&](const JsonCursor& stride) {
        out.push_back(static_size(stride).value_or(0));
        if (out.back() < 0 || out.back() > kMostElements) stride.fail("not a plausible stride");
    });
    return out;
}

TensorMeta tensor_meta(const JsonCursor& at) {
    TensorMeta meta;
    meta.dtype = at.at("dtype").integer();
    meta.shape = sizes(at.at("sizes"), meta.symbol);
    meta.strides = strides(at.at("strides"));
    if (meta.strides.size() != meta.shape.size()) at.fail("sizes and strides differ in number");
    if (at.has("storage_offset")) meta.offset = static_size(at.at("storage_offset")).value_or(0);
    if (meta.offset < 0 || meta.offset > kMostElements) at.fail("not a plausible storage_offset");
    return meta;
}

TensorName tensor_name(const JsonCursor& at) { return {at.at("name").text()}; }

template <class T, class Read>
std::vector<T> list(const JsonCursor& at, Read&& read) {
    std::vector<T> out;
    at.each([&](const JsonCursor& element) { out.push_back(read(element)); });
    return out;
}

OptionalNames optional_names(const JsonCursor& at) {
    return list<std::optional<TensorName>>(at, [](const JsonCursor& element) -> std::optional<TensorName> {
        if (element.tag() == "as_none") return std::nullopt;
        return tensor_name(element.at("as_tensor"));
    });
}

/// A SymInt argument must be static; one that is computed has no meaning in a static program.
Argument sym_int(const JsonCursor& at) {
    if (at.tag() == "as_int") return at.at("as_int").integer();
    return Other{"symbolic integer"};
}

Argument sym_ints(const JsonCursor& at) {
    std::vector<std::int64_t> out;
    bool symbolic = false;
    at.each([&](const JsonCursor& element) {
        const Argument value = sym_int(element);
        const auto* number = std::get_if<std::int64_t>(&value);
        symbolic = symbolic || number == nullptr;
        if (number != nullptr) out.push_back(*number);
    });
    if (symbolic) return Other{"symbolic integers"};
    return out;
}

Argument argument(const JsonCursor& at) {
    const std::string kind = at.tag();
    const JsonCursor value = at.at(kind);
    if (kind == "as_none") return None{};
    if (kind == "as_tensor") return tensor_name(value);
    if (kind == "as_optional_tensor") {
        if (value.tag() == "as_none") return None{};
        return tensor_name(value.at("as_tensor"));
    }
    if (kind == "as_tensors") return list<std::optional<TensorName>>(value, tensor_name);
    if (kind == "as_optional_tensors") return optional_names(value);
    if (kind == "as_int") return value.integer();
    if (kind == "as_ints") {
        return list<std::int64_t>(value, [](const JsonCursor& element) { return element.integer(); });
    }
    if (kind == "as_sym_int") return sym_int(value);
    if (kind == "as_sym_ints") return sym_ints(value);
    if (kind == "as_float") return value.number();
    if (kind == "as_floats") {
        return list<double>(value, [](const JsonCursor& element) { return element.number(); });
    }
    if (kind == "as_bool") return value.flag();
    if (kind == "as_string") return value.text();
    if (kind == "as_scalar_type") return ScalarType{value.integer()};
    return Other{kind.starts_with("as_") ? kind.substr(3) : kind};
}

/// Removes "slice(None, 30, None)." from module paths: a loop over part of a list is not a module.
std::string without_slices(std::string path) {
    for (std::size_t at = path.find("slice("); at != std::string::npos; at = path.find("slice(", at)) {
        const std::size_t end = path.find(')', at);
        if (end == std::string::npos) break;
        path.erase(at, end + 1 - at + (path.compare(end + 1, 1, ".") == 0 ? 1 : 0));
    }
    return path;
}

/// The innermost module of "key,path,type;key,path,type;...".
std::string innermost_module(const std::string& stack) {
    const std::size_t entry = stack.rfind(';') == std::string::npos ? 0 : stack.rfind(';') + 1;
    const std::size_t first = stack.find(',', entry);
    const std::size_t last = stack.rfind(',');
    if (first == std::string::npos || last <= first) return "";
    return without_slices(stack.substr(first + 1, last - first - 1));
}

std::string short_op(const std::string& target) {
    constexpr std::string_view kPrefix = "torch.ops.";
    return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
}

void add_outputs(const JsonCursor& at, std::vector<std::string>& out) {
    const Argument value = argument(at);
    if (const auto* one = std::get_if<TensorName>(&value)) {
        out.push_back(one->name);
    } else if (const auto* many = std::get_if<OptionalNames>(&value)) {
        for (const auto& name : *many) out.push_back(name ? name->name : "");
    } else {
        out.emplace_back();
    }
}

Node node(const JsonCursor& at) {
    Node result;
    result.op = short_op(at.at("target").text());
    at.at("inputs").each([&](const JsonCursor& input) {
        result.inputs.push_back({input.at("name").text(), argument(input.at("arg"))});
    });
    at.at("outputs").each([&](const JsonCursor& output) { add_outputs(output, result.outputs); });
    if (at.has("metadata") && at.at("metadata").has("nn_module_stack")) {
        const JsonCursor metadata = at.at("metadata");
        result.module = innermost_module(metadata.at("nn_module_stack").text());
    }
    return result;
}

InputSpec input_spec(const JsonCursor& at) {
    using Kind = InputSpec::Kind;
    struct Row {
        std::string_view tag, target;
        Kind kind;
    };
    static constexpr std::array<Row, 3> kRows{
        {{"parameter", "parameter_name", Kind::Parameter},
         {"buffer", "buffer_name", Kind::Buffer},
         {"tensor_constant", "tensor_constant_name", Kind::TensorConstant}}};
    const std::string tag = at.tag();
    const JsonCursor spec = at.at(tag);
    for (const Row& row : kRows) {
        if (row.tag == tag) {
            const JsonCursor arg = spec.at("arg");
            return {row.kind, arg.at("name").text(), spec.at(row.target).text()};
        }
    }
    if (tag == "constant_input") return {Kind::Fixed, spec.at("name").text(), ""};
    if (tag != "user_input") spec.fail("this kind of input is not supported; pass tensors only");
    const Argument value = argument(spec.at("arg"));
    if (const auto* name = std::get_if<TensorName>(&value)) return {Kind::User, name->name, ""};
    if (std::holds_alternative<Other>(value)) {
        spec.fail("symbolic or custom inputs are not supported; export with static shapes");
    }
    return {Kind::Fixed, "", ""};
}

OutputSpec output_spec(const JsonCursor& at) {
    using Kind = OutputSpec::Kind;
    const std::string tag = at.tag();
    const JsonCursor spec = at.at(tag);
    const auto value = [&] {
        const JsonCursor arg = spec.at("arg");
        return arg.at("name").text();
    };
    if (tag == "buffer_mutation") return {Kind::Mutation, value(), spec.at("buffer_name").text()};
    if (tag == "parameter_mutation") return {Kind::Mutation, value(), spec.at("parameter_name").text()};
    if (tag == "user_input_mutation") return {Kind::UserMutation, value(), spec.at("user_input_name").text()};
    if (tag == "loss_output") return {Kind::User, value(), ""};
    if (tag != "user_output") spec.fail("this kind of output is not supported");
    const Argument result = argument(spec.at("arg"));
    if (const auto* name = std::get_if<TensorName>(&result)) return {Kind::User, name->name, ""};
    if (std::holds_alternative<Other>(result)) {
        spec.fail("symbolic or custom outputs are not supported; export with static shapes");
    }
    return {Kind::Fixed, "", ""};
}

void check_version(const JsonCursor& root) {
    const JsonCursor version = root.at("schema_version");
    const std::int64_t major = version.at("major").integer();
    if (major == kMajorVersion) return;
    version.fail(
        fmt::format("schema version {} is not supported, only {}; export again with PyTorch 2.11 to 2.13",
                    major, kMajorVersion));
}

}  // namespace

DType to_dtype(std::int64_t scalar_type, std::string_view owner) {
    switch (scalar_type) {
        case 1:
            return DType::U8;
        case 4:
            return DType::I32;
        case 5:
            return DType::I64;
        case 6:
            return DType::F16;
        case 7:
            return DType::F32;
        case 8:
            return DType::F64;
        case 12:
            return DType::Bool;
        case 13:
            return DType::BF16;
        default:
            throw UserError(
                fmt::format("{}: PyTorch's element type number {} is not supported; use bool, uint8, int32, "
                            "int64, float16, "
                            "bfloat16, float32 or float64",
                            owner, scalar_type));
    }
}

Program parse_program(std::string_view json, std::string_view document) {
    const Json tree = parsed(json, document);
    const JsonCursor root(tree, document);
    check_version(root);
    const JsonCursor module = root.at("graph_module");
    const JsonCursor graph = module.at("graph");
    const JsonCursor signature = module.at("signature");
    Program program;
    graph.at("tensor_values").members([&](const std::string& name, const JsonCursor& meta) {
        program.tensors.emplace(name, tensor_meta(meta));
    });
    graph.at("nodes").each([&](const JsonCursor& at) { program.nodes.push_back(node(at)); });
    signature.at("input_specs").each([&](const JsonCursor& at) { program.inputs.push_back(input_spec(at)); });
    signature.at("output_specs").each([&](const JsonCursor& at) {
        program.outputs.push_back(output_spec(at));
    });
    return program;
}

std::map<std::string, Payload> parse_payloads(std::string_view json, std::string_view document) {
    const Json tree = parsed(json, document);
    const JsonCursor root(tree, document);
    std::map<std::string, Payload> payloads;
    root.at("config").members([&](const std::string& name, const JsonCursor& at) {
        Payload payload;
        payload.path = at.at("path_name").text();
        payload.pickled = at.has("use_pickle") && at.at("use_pickle").flag();
        if (at.has("tensor_meta")) payload.meta = tensor_meta(at.at("tensor_meta"));
        payloads.emplace(name, std::move(payload));
    });
    return payloads;
}

}  // namespace stretto::schema
