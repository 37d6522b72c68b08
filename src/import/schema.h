#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/box.h"
#include "base/dtype.h"

/// PyTorch's serialized ExportedProgram (torch/_export/serde/schema.py) as plain structures: what the importer uses of
/// it, and nothing else.
namespace stretto::schema {

/// Type and layout of a tensor. Numbers of elements; `dtype` is PyTorch's serialized ScalarType.
struct TensorMeta {
    std::int64_t dtype = 0;
    Shape shape;
    Shape strides;
    std::int64_t offset = 0;
    std::string symbol;  ///< the first symbolic size, empty for static shapes
};

/// Throws UserError for element types that Stretto does not have. `owner` names the tensor.
[[nodiscard]] DType to_dtype(std::int64_t scalar_type, std::string_view owner);

struct None {};
struct TensorName {
    std::string name;
};
struct ScalarType {
    std::int64_t value = 0;
};
/// A kind of argument that no supported operation takes.
struct Other {
    std::string kind;
};
using OptionalNames = std::vector<std::optional<TensorName>>;  ///< Also stands for lists without a None.
using Argument = std::variant<None, TensorName, OptionalNames, std::int64_t, std::vector<std::int64_t>,
                              double, std::vector<double>, bool, std::string, ScalarType, Other>;

struct NamedArgument {
    std::string name;
    Argument value;
};

struct Node {
    std::string op;      ///< e.g. "aten.mul.Tensor"
    std::string module;  ///< e.g. "model.layers.3.mlp", empty at the root
    std::vector<NamedArgument> inputs;
    std::vector<std::string> outputs;  ///< names of tensors; empty for a result that is None
};

struct InputSpec {
    enum class Kind : std::uint8_t { Parameter, Buffer, TensorConstant, User, Fixed };
    Kind kind = Kind::User;
    std::string value;   ///< its name in the graph
    std::string target;  ///< its name in the state_dict
};

struct OutputSpec {
    enum class Kind : std::uint8_t { User, Mutation, UserMutation, Fixed };
    Kind kind = Kind::User;
    std::string value;
    std::string target;  ///< of a mutation: state_dict name, or name of the user's input
};

struct Program {
    std::vector<InputSpec> inputs;
    std::vector<OutputSpec> outputs;
    std::vector<Node> nodes;
    std::map<std::string, TensorMeta> tensors;  ///< by name in the graph
};

/// `document` names the text in errors. Throws UserError.
[[nodiscard]] Program parse_program(std::string_view json, std::string_view document);

/// One tensor of an archive's weights or constants.
struct Payload {
    std::string path;  ///< below data/weights or data/constants
    bool pickled = false;
    TensorMeta meta;
};
[[nodiscard]] std::map<std::string, Payload> parse_payloads(std::string_view json, std::string_view document);

}  // namespace stretto::schema
