#include "import/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/promote.h"
#include "import/call.h"
#include "import/lowering.h"
#include "import/unsupported.h"

namespace stretto {
namespace {

using InputKind = schema::InputSpec::Kind;
using OutputKind = schema::OutputSpec::Kind;

class Importer {
public:
    Importer(const schema::Program& program, std::map<std::string, HostTensor> tensors)
        : program_(program), given_(std::move(tensors)) {}

    Imported run() {
        reject_unsupported(program_);
        for (const schema::OutputSpec& output : program_.outputs) {
            const bool changes =
                output.kind == OutputKind::Mutation || output.kind == OutputKind::UserMutation;
            if (changes) mutated_.insert(output.target);
        }
        for (const schema::InputSpec& input : program_.inputs) add_input(input);
        for (const schema::Node& node : program_.nodes) lower(node);
        for (const schema::OutputSpec& output : program_.outputs) add_output(output);
        result_.graph = builder_.finish();
        return std::move(result_);
    }

private:
    Type type_of(const std::string& value, const std::string& owner) const {
        const auto found = program_.tensors.find(value);
        if (found == program_.tensors.end()) {
            throw UserError(fmt::format("input '{}' has no type in tensor_values", owner));
        }
        const schema::TensorMeta& meta = found->second;
        if (!meta.symbol.empty()) {
            throw UserError(fmt::format("input '{}' has the symbolic size {}; export without dynamic shapes",
                                        owner, meta.symbol));
        }
        return {schema::to_dtype(meta.dtype, fmt::format("input '{}'", owner)), meta.shape};
    }

    /// PyTorch keeps state and arguments apart; here all names share one space.
    std::string unique(const std::string& name) {
        std::string result = name;
        for (int i = 1; !names_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
        return result;
    }

    void add_input(const schema::InputSpec& spec) {
        if (spec.kind == InputKind::Fixed) {
            result_.user_inputs.emplace_back();
            return;
        }
        const bool user = spec.kind == InputKind::User;
        const std::string& owner = user ? spec.value : spec.target;
        const Type type = type_of(spec.value, owner);
        const std::string name = unique(owner);
        const bool state = mutated_.contains(owner);
        if (user) {
            result_.user_inputs.push_back(name);
            if (state) result_.user_states.push_back(name);
            bind(spec.value, builder_.input(state ? Role::State : Role::User, name, type.dtype, type.shape));
        } else {
            bind(spec.value, add_held(spec, name, type, state));
        }
        if (state) states_.emplace(owner, std::pair(tensors_.at(spec.value), name));
    }

    /// An input whose value comes with the program.
    Tensor add_held(const schema::InputSpec& spec, const std::string& name, const Type& type, bool state) {
        const auto found = given_.find(spec.target);
        if (found != given_.end()) require_type(spec.target, found->second, type);
        if (spec.kind == InputKind::TensorConstant && !state && found != given_.end()) {
            const std::byte* bytes = found->second.bytes.get();
            return builder_.constant(name, type.dtype, type.shape, {bytes, bytes + found->second.size});
        }
        if (found != given_.end()) result_.tensors.emplace(name, found->second);
        return builder_.input(state ? Role::State : Role::Parameter, name, type.dtype, type.shape);
    }

    static void require_type(const std::string& name, const HostTensor& tensor, const Type& type) {
        const auto wanted = static_cast<std::size_t>(volume(type.shape)) * size_of(type.dtype);
        if (tensor.dtype == type.dtype && tensor.shape == type.shape && tensor.size == wanted) return;
        throw UserError(fmt::format("tensor '{}' is {} {} of {} bytes; the program needs {} {} of {} bytes",
                                    name, stretto::name(tensor.dtype), to_text(tensor.shape), tensor.size,
                                    stretto::name(type.dtype), to_text(type.shape), wanted));
    }

    void bind(const std::string& value, Tensor tensor) {
        if (value.empty()) return;
        if (!tensors_.emplace(value, std::move(tensor)).second) {
            throw UserError(fmt::format("the program defines '{}' twice", value));
        }
    }

    void lower(const schema::Node& node) {
        if (is_assertion(node)) return;
        builder_.at({node.module, node.op});
        Call call(builder_, node, program_, tensors_);
        const std::vector<Tensor> results = (*find_lowering(node.op))(call);
        for (std::size_t i = 0; i < std::min(results.size(), node.outputs.size()); ++i) {
            if (node.outputs[i].empty()) continue;
            require_result(call, i, results[i]);
            bind(node.outputs[i], results[i]);
        }
    }

    /// What a table builds must have the shape and the type that PyTorch computed.
    static void require_result(const Call& call, std::size_t i, const Tensor& got) {
        if (got.shape() == call.shape(i) && got.dtype == call.dtype(i)) return;
        call.fail(fmt::format("result {} is {} {}, PyTorch says {} {}", i, name(got.dtype),
                              to_text(got.shape()), name(call.dtype(i)), to_text(call.shape(i))));
    }

    const Tensor& result_of(const std::string& value) const {
        const auto found = tensors_.find(value);
        if (found != tensors_.end()) return found->second;
        throw UserError(fmt::format("the program returns '{}', which it does not define", value));
    }

    void add_output(const schema::OutputSpec& spec) {
        builder_.at({});
        if (spec.kind == OutputKind::Fixed) {
            result_.user_outputs.emplace_back();
        } else if (spec.kind == OutputKind::User) {
            result_.user_outputs.push_back(unique(spec.value));
            builder_.output(result_of(spec.value), result_.user_outputs.back());
        } else {
            const auto found = states_.find(spec.target);
            if (found == states_.end()) {
                throw UserError(
                    fmt::format("the program changes '{}', which is none of its inputs", spec.target));
            }
            builder_.update_state(found->second.first, result_of(spec.value), found->second.second);
        }
    }

    const schema::Program& program_;
    std::map<std::string, HostTensor> given_;
    GraphBuilder builder_;
    TensorMap tensors_;
    std::set<std::string> names_;
    std::set<std::string> mutated_;  ///< state_dict names and names of arguments
    std::map<std::string, std::pair<Tensor, std::string>> states_;  ///< the input and its name, by the same
    Imported result_;
};

}  // namespace

Imported lower_program(const schema::Program& program, std::map<std::string, HostTensor> tensors) {
    return Importer(program, std::move(tensors)).run();
}

Imported import_program(std::string_view json, std::map<std::string, HostTensor> tensors) {
    return lower_program(schema::parse_program(json, "exported program"), std::move(tensors));
}

}  // namespace stretto
