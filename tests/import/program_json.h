#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "import/import.h"
#include "support/oracle.h"

namespace stretto {

/// Writes small exported programs in PyTorch's JSON form, one line for each input, node and output.
class ProgramJson {
public:
    ProgramJson& user(const std::string& name, DType dtype, const Shape& shape) {
        value(name, dtype, shape);
        inputs_.push_back(fmt::format(R"({{"user_input":{{"arg":{{"as_tensor":{{"name":"{}"}}}}}}}})", name));
        return *this;
    }
    ProgramJson& parameter(const std::string& name, DType dtype, const Shape& shape) {
        return held("parameter", "parameter_name", name, dtype, shape);
    }
    ProgramJson& buffer(const std::string& name, DType dtype, const Shape& shape) {
        return held("buffer", "buffer_name", name, dtype, shape);
    }
    ProgramJson& constant(const std::string& name, DType dtype, const Shape& shape) {
        return held("tensor_constant", "tensor_constant_name", name, dtype, shape);
    }
    ProgramJson& input_spec(const std::string& json) {
        inputs_.push_back(json);
        return *this;
    }

    /// `args`: pairs of an argument's name and its JSON (see t, n, ints, ...).
    ProgramJson& node(const std::string& op, const std::vector<std::pair<std::string, std::string>>& args,
                      const std::string& result, DType dtype, const Shape& shape,
                      const std::string& module = "") {
        value(result, dtype, shape);
        return call(op, args, fmt::format(R"({{"as_tensor":{{"name":"{}"}}}})", result), module);
    }
    /// A node whose results are given as JSON.
    ProgramJson& call(const std::string& op, const std::vector<std::pair<std::string, std::string>>& args,
                      const std::string& results, const std::string& module = "") {
        std::vector<std::string> inputs;
        for (const auto& [name, json] : args) {
            inputs.push_back(fmt::format(R"({{"name":"{}","arg":{}}})", name, json));
        }
        nodes_.push_back(fmt::format(
            R"({{"target":"torch.ops.{}","inputs":[{}],"outputs":[{}],"metadata":{{"nn_module_stack":"L__self__,,M;1,{},torch.nn.X"}}}})",
            op, fmt::join(inputs, ","), results, module));
        return *this;
    }
    ProgramJson& output(const std::string& value) {
        return output_spec(
            fmt::format(R"({{"user_output":{{"arg":{{"as_tensor":{{"name":"{}"}}}}}}}})", value));
    }
    ProgramJson& mutation(const std::string& value, const std::string& buffer) {
        return output_spec(fmt::format(
            R"({{"buffer_mutation":{{"arg":{{"name":"{}"}},"buffer_name":"{}"}}}})", value, buffer));
    }
    ProgramJson& output_spec(const std::string& json) {
        outputs_.push_back(json);
        return *this;
    }
    ProgramJson& value(const std::string& name, DType dtype, const Shape& shape) {
        values_.push_back(fmt::format(R"("{}":{})", name, meta(dtype, shape)));
        return *this;
    }

    [[nodiscard]] std::string text() const {
        return fmt::format(
            R"({{"schema_version":{{"major":8,"minor":20}},"graph_module":{{"graph":{{"tensor_values":{{{}}},"nodes":[{}]}},"signature":{{"input_specs":[{}],"output_specs":[{}]}}}}}})",
            fmt::join(values_, ","), fmt::join(nodes_, ","), fmt::join(inputs_, ","),
            fmt::join(outputs_, ","));
    }

    [[nodiscard]] static std::string meta(DType dtype, const Shape& shape) {
        return meta(dtype, shape, row_major_strides(shape), 0);
    }
    [[nodiscard]] static std::string meta(DType dtype, const Shape& shape, const Shape& strides,
                                          std::int64_t offset) {
        static const std::map<DType, int> kNumbers = {{DType::U8, 1},    {DType::I32, 4},  {DType::I64, 5},
                                                      {DType::F16, 6},   {DType::F32, 7},  {DType::F64, 8},
                                                      {DType::Bool, 12}, {DType::BF16, 13}};
        return fmt::format(R"({{"dtype":{},"sizes":[{}],"strides":[{}],"storage_offset":{{"as_int":{}}}}})",
                           kNumbers.at(dtype), sizes(shape), sizes(strides), offset);
    }

private:
    ProgramJson& held(const std::string& kind, const std::string& field, const std::string& name, DType dtype,
                      const Shape& shape) {
        const std::string in_graph = "held_" + std::to_string(inputs_.size());
        value(in_graph, dtype, shape);
        inputs_.push_back(
            fmt::format(R"({{"{}":{{"arg":{{"name":"{}"}},"{}":"{}"}}}})", kind, in_graph, field, name));
        return *this;
    }
    static std::string sizes(const Shape& shape) {
        std::vector<std::string> out;
        for (const std::int64_t extent : shape) out.push_back(fmt::format(R"({{"as_int":{}}})", extent));
        return fmt::format("{}", fmt::join(out, ","));
    }

    std::vector<std::string> inputs_, outputs_, nodes_, values_;
};

// Arguments.
inline std::string tensor(const std::string& name) {
    return fmt::format(R"({{"as_tensor":{{"name":"{}"}}}})", name);
}
inline std::string integer(std::int64_t value) { return fmt::format(R"({{"as_int":{}}})", value); }
inline std::string number(double value) { return fmt::format(R"({{"as_float":{}}})", value); }
inline std::string integers(const std::vector<std::int64_t>& values) {
    return fmt::format(R"({{"as_ints":[{}]}})", fmt::join(values, ","));
}

inline HostTensor host_tensor(DType dtype, const Shape& shape, const Elements& elements) {
    const std::vector<std::byte> bytes = to_bytes(elements, dtype);
    std::shared_ptr<std::byte> copy(new std::byte[bytes.size()], std::default_delete<std::byte[]>());
    std::copy(bytes.begin(), bytes.end(), copy.get());
    return {dtype, shape, copy, bytes.size()};
}

/// The message of the UserError that `call` throws.
template <class Call>
std::string error_of(Call&& call) {
    try {
        call();
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace stretto
