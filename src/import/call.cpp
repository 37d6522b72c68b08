#include "import/call.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace stretto {

void Call::fail(std::string_view problem) const {
    throw UserError(node_.module.empty() ? fmt::format("{}: {}", node_.op, problem)
                                         : fmt::format("{} at {}: {}", node_.op, node_.module, problem));
}

void Call::wrong(std::string_view name, std::string_view expected) const {
    fail(fmt::format("argument '{}' must be {}", name, expected));
}

const schema::Argument* Call::find(std::string_view name) const {
    for (const schema::NamedArgument& input : node_.inputs) {
        if (input.name == name) return &input.value;
    }
    return nullptr;
}

const schema::Argument& Call::need(std::string_view name) const {
    const schema::Argument* found = find(name);
    if (found == nullptr) fail(fmt::format("argument '{}' is missing", name));
    return *found;
}

bool Call::has(std::string_view name) const {
    const schema::Argument* found = find(name);
    return found != nullptr && !std::holds_alternative<schema::None>(*found);
}

bool Call::is_tensor(std::string_view name) const {
    const schema::Argument* found = find(name);
    return found != nullptr && std::holds_alternative<schema::TensorName>(*found);
}

Tensor Call::bound(const schema::TensorName& name) const {
    const auto found = tensors_.find(name.name);
    if (found == tensors_.end()) {
        fail(fmt::format("its operand '{}' is no tensor of the program, or a result that is not supported",
                         name.name));
    }
    return found->second;
}

Tensor Call::tensor(std::string_view name) const {
    const auto* value = std::get_if<schema::TensorName>(&need(name));
    if (value == nullptr) wrong(name, "a tensor");
    return bound(*value);
}

std::optional<Tensor> Call::optional_tensor(std::string_view name) const {
    if (!has(name)) return std::nullopt;
    return tensor(name);
}

std::vector<std::optional<Tensor>> Call::optional_tensors(std::string_view name) const {
    const auto* names = std::get_if<schema::OptionalNames>(&need(name));
    if (names == nullptr) wrong(name, "a list of tensors");
    std::vector<std::optional<Tensor>> out;
    for (const auto& one : *names) out.push_back(one ? std::optional(bound(*one)) : std::nullopt);
    return out;
}

std::vector<Tensor> Call::tensors(std::string_view name) const {
    std::vector<Tensor> out;
    for (const auto& one : optional_tensors(name)) {
        if (!one) wrong(name, "a list of tensors without None");
        out.push_back(*one);
    }
    return out;
}

std::int64_t Call::integer(std::string_view name) const {
    const schema::Argument& value = need(name);
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr) wrong(name, "a fixed integer");
    return *number;
}

std::int64_t Call::integer(std::string_view name, std::int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
}

int Call::dim(std::string_view name) const {
    const std::int64_t value = integer(name);
    if (value < -64 || value > 64) wrong(name, "a dimension");
    return static_cast<int>(value);
}

int Call::dim(std::string_view name, int otherwise) const { return has(name) ? dim(name) : otherwise; }

std::vector<std::int64_t> Call::integers(std::string_view name) const {
    const schema::Argument& value = need(name);
    if (const auto* one = std::get_if<std::int64_t>(&value)) return {*one};
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value);
    if (numbers != nullptr) return *numbers;
    // An empty list does not say what its elements would have been.
    const auto* names = std::get_if<schema::OptionalNames>(&value);
    if (names == nullptr || !names->empty()) wrong(name, "a list of fixed integers");
    return {};
}

std::vector<int> Call::dims(std::string_view name) const {
    std::vector<int> out;
    if (!has(name)) return out;
    for (const std::int64_t value : integers(name)) {
        if (value < -64 || value > 64) wrong(name, "a list of dimensions");
        out.push_back(static_cast<int>(value));
    }
    return out;
}

double Call::number(std::string_view name) const {
    const schema::Argument& value = need(name);
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
    wrong(name, "a fixed number");
}

double Call::number(std::string_view name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
}

bool Call::is_integral(std::string_view name) const {
    const schema::Argument& value = need(name);
    return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<bool>(value);
}

bool Call::flag(std::string_view name, bool otherwise) const {
    if (!has(name)) return otherwise;
    const auto* value = std::get_if<bool>(&need(name));
    if (value == nullptr) wrong(name, "true or false");
    return *value;
}

std::string Call::text(std::string_view name, std::string_view otherwise) const {
    if (!has(name)) return std::string(otherwise);
    const auto* value = std::get_if<std::string>(&need(name));
    if (value == nullptr) wrong(name, "a string");
    return *value;
}

const schema::TensorMeta& Call::meta(std::size_t result) const {
    if (result >= node_.outputs.size()) fail("it has fewer results than expected");
    const auto found = program_.tensors.find(node_.outputs[result]);
    if (found == program_.tensors.end()) {
        fail(fmt::format("its result '{}' has no type in tensor_values", node_.outputs[result]));
    }
    if (!found->second.symbol.empty()) {
        fail(fmt::format("its result has the symbolic size {}; export with static shapes",
                         found->second.symbol));
    }
    return found->second;
}

DType Call::dtype(std::size_t result) const {
    return schema::to_dtype(meta(result).dtype, fmt::format("result of {} at {}", node_.op, node_.module));
}

Shape Call::shape(std::size_t result) const { return meta(result).shape; }

}  // namespace stretto
