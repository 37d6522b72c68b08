#include "backends/cuda/bound_program.h"

#include <fmt/format.h>

#include <utility>

#include "backends/cuda/items.h"
#include "backends/cuda/phases.h"
#include "base/error.h"
#include "schedule/loads.h"

namespace stretto::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr DevicePointer kTensorAlignment = 16;  // of bulk copies, and of neighbours that move together

bool is_dynamic(BufferRole role) { return role == BufferRole::Input || role == BufferRole::Output; }
bool is_external(BufferRole role) { return role != BufferRole::Constant && role != BufferRole::Arena; }

}  // namespace

BoundProgram::BoundProgram(const Plan& plan, const Emission& emission, Options options)
    : packed_for_(std::move(options.packed_for)),
      records_(items_of<abi::Record>(emission.records)),
      loads_(items_of<abi::Load>(emission.loads)),
      arena_(static_cast<std::size_t>(plan.arena_bytes)),
      workers_(std::span<const std::byte>(emission.workers)) {
    if (options.separate) {
        Phases split = phases(plan, emission);
        records_ = std::move(split.records);
        loads_ = std::move(split.loads);
        workers_ = DeviceMemory(std::as_bytes(std::span(split.workers)));
        kernels_ = split.count;
    }
    abi::U32 dynamic = 0;
    for (std::size_t i = 0; i < plan.graph.regions.buffers.size(); ++i) {
        const Buffer& buffer = plan.graph.regions.buffers[i];
        BufferInfo info{buffer.name, buffer.role, 0, std::nullopt};
        if (is_dynamic(buffer.role)) info.dynamic = dynamic++;
        if (buffer.role == BufferRole::Arena && plan.offsets.at(i) >= 0) {
            info.own = arena_.address() + static_cast<DevicePointer>(plan.offsets[i]);
        }
        buffers_.push_back(std::move(info));
    }
    if (dynamic > abi::kMaxDynamic) {
        throw UserError(
            fmt::format("the program has {} inputs and outputs; a launch passes at most {}: make those that "
                        "do not change parameters or state",
                        dynamic, abi::kMaxDynamic));
    }
    place_constants(plan);
}

void BoundProgram::place_constants(const Plan& plan) {
    std::vector<std::byte> all;
    std::vector<std::int64_t> offsets;
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        offsets.push_back(static_cast<std::int64_t>(all.size()));
        if (buffer.role != BufferRole::Constant) continue;
        ensure(buffer.bytes != nullptr, "a constant has no bytes");
        all.insert(all.end(), buffer.bytes->begin(), buffer.bytes->end());
        all.resize(
            static_cast<std::size_t>(abi::round_up(static_cast<std::int64_t>(all.size()), kAlignment)));
    }
    constants_ = DeviceMemory(std::span<const std::byte>(all));
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
        if (buffers_[i].role != BufferRole::Constant) continue;
        buffers_[i].own = constants_.address() + static_cast<DevicePointer>(offsets[i]);
    }
    finish_copies();
}

DevicePointer BoundProgram::address(std::size_t buffer, const Bindings& bindings) const {
    const BufferInfo& info = buffers_.at(buffer);
    if (!is_external(info.role)) return info.own;
    const auto pointer = reinterpret_cast<DevicePointer>(bindings.at(buffer));
    if (pointer == 0) {
        throw UserError(
            fmt::format("buffer {} is not bound: give a device pointer for every parameter, state, input "
                        "and output",
                        info.name));
    }
    if (pointer % kTensorAlignment != 0) {
        throw UserError(
            fmt::format("buffer {} must start at a multiple of {} bytes: pass a tensor of its own, "
                        "not a view into another",
                        info.name, kTensorAlignment));
    }
    return pointer;
}

abi::U64 BoundProgram::operand(abi::U64 buffer, const Bindings& bindings) const {
    if (buffer == abi::kNoOperand) return buffer;
    const BufferInfo& info = buffers_.at(buffer);
    if (info.dynamic) return abi::kDynamicTag | *info.dynamic;
    return address(buffer, bindings);
}

abi::Load BoundProgram::load(abi::Load load, const Bindings& bindings) const {
    const BufferInfo& info = buffers_.at(load.dynamic);
    if (info.dynamic) {
        load.dynamic = *info.dynamic;
    } else {
        load.address += address(load.dynamic, bindings);
        load.dynamic = abi::kNoDynamic;
    }
    return load;
}

void BoundProgram::bind(const Bindings& bindings) {
    ensure(bindings.size() == buffers_.size(), "bindings and buffers differ in number");
    std::vector<abi::Record> records = records_;
    for (abi::Record& record : records) {
        for (abi::U64& operand_of_record : record.operands) {
            operand_of_record = operand(operand_of_record, bindings);
        }
    }
    std::vector<abi::Load> loads;
    for (const abi::Load& package_load : loads_) loads.push_back(load(package_load, bindings));
    if (!packed_for_.empty()) {
        std::vector<abi::Load*> panels;
        for (std::size_t i = 0; i < loads.size(); ++i) {
            if (can_pack(buffers_.at(loads_[i].dynamic).role, loads[i].rows)) panels.push_back(&loads[i]);
        }
        if (!panels.empty()) packed_.emplace(panels, packed_for_);
    }
    bound_records_ = DeviceMemory(std::as_bytes(std::span(records)));
    bound_loads_ = DeviceMemory(std::as_bytes(std::span(loads)));
    finish_copies();
    bound_ = bindings;
}

bool BoundProgram::bound_to(const Bindings& bindings) const {
    if (bound_.empty()) return false;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
        const BufferRole role = buffers_[i].role;
        if ((role == BufferRole::Parameter || role == BufferRole::State) && bindings.at(i) != bound_[i]) {
            throw UserError(
                fmt::format("{} has moved since the first run: parameters and state stay where they are "
                            "bound; make a new executor for other tensors",
                            buffers_[i].name));
        }
    }
    return true;
}

abi::Launch BoundProgram::launch(const Bindings& bindings) const {
    abi::Launch launch{};
    launch.records = bound_records_.as<abi::Record>();
    launch.loads = bound_loads_.as<abi::Load>();
    launch.workers = workers_.as<abi::WorkerRange>();
    launch.kernels = kernels_;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
        if (buffers_[i].dynamic) launch.dynamic[*buffers_[i].dynamic] = address(i, bindings);
    }
    return launch;
}

}  // namespace stretto::cuda
