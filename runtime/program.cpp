#include "runtime/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "graph/text.h"

namespace stretto {
namespace {

constexpr std::array<std::string_view, 6> kRoleNames{"parameter", "state",  "constant",
                                                     "input",     "output", "arena"};

std::string describe(DType dtype, const Shape& shape) {
    return fmt::format("{}[{}]", name(dtype), fmt::join(shape, ","));
}

/// The model's tensors that the plan still uses (simplify may have dropped some).
std::map<std::string, HostTensor> used_tensors(const Program& program,
                                               const std::map<std::string, HostTensor>& tensors) {
    std::map<std::string, HostTensor> used;
    for (const Buffer& buffer : program.plan.graph.regions.buffers) {
        if (!needs_value(program, buffer)) continue;
        const auto found = tensors.find(buffer.name);
        if (found == tensors.end()) {
            throw UserError(fmt::format("{} '{}' has no value: the model came without it", name(buffer.role),
                                        buffer.name));
        }
        const HostTensor& tensor = found->second;
        if (tensor.dtype != buffer.dtype || tensor.shape != buffer.shape) {
            throw UserError(fmt::format("{} '{}' is {} in the program, but its value is {}",
                                        name(buffer.role), buffer.name, describe(buffer.dtype, buffer.shape),
                                        describe(tensor.dtype, tensor.shape)));
        }
        used.emplace(buffer.name, tensor);
    }
    return used;
}

}  // namespace

std::string_view name(BufferRole role) { return kRoleNames.at(static_cast<std::size_t>(role)); }

Program make_program(Compiled compiled, const Imported& model, std::string source) {
    Program program;
    program.plan = std::move(compiled.plan);
    program.machine = std::move(compiled.options.machine);
    program.provenance.plan = compiled.options.plan;
    program.emission = std::move(compiled.emission);
    program.provenance.source = std::move(source);
    program.provenance.graph = content_hash(to_text(model.graph));
    program.inputs = model.user_inputs;
    program.outputs = model.user_outputs;
    program.user_states = model.user_states;
    program.tensors = used_tensors(program, model.tensors);
    return program;
}

bool needs_value(const Program& program, const Buffer& buffer) {
    if (buffer.role == BufferRole::Parameter) return true;
    return buffer.role == BufferRole::State &&
           std::ranges::find(program.user_states, buffer.name) == program.user_states.end();
}

BufferId buffer_named(const Plan& plan, std::string_view name) {
    std::vector<std::string_view> known;
    const auto& buffers = plan.graph.regions.buffers;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        if (buffers[i].role == BufferRole::Arena || buffers[i].role == BufferRole::Constant) continue;
        if (buffers[i].name == name) return BufferId(static_cast<std::int64_t>(i));
        if (buffers[i].role != BufferRole::Parameter) known.push_back(buffers[i].name);
    }
    throw UserError(fmt::format("the program has no tensor '{}'; it has {}", name, fmt::join(known, ", ")));
}

}  // namespace stretto
