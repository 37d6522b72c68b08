#include "verify/faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::verifying {
namespace {

std::string_view role_name(BufferRole role) {
    switch (role) {
        case BufferRole::Parameter:
            return "parameter";
        case BufferRole::State:
            return "state";
        case BufferRole::Constant:
            return "constant";
        case BufferRole::Input:
            return "input";
        case BufferRole::Output:
            return "output";
        case BufferRole::Arena:
            return "arena";
    }
    return "buffer";
}

}  // namespace

void FaultList::add(Fault::Kind kind, std::string message) {
    if (!full(kind)) faults_.push_back({kind, std::move(message)});
}

std::size_t FaultList::count(Fault::Kind kind) const {
    const auto same = [&](const Fault& fault) { return fault.kind == kind; };
    return static_cast<std::size_t>(std::count_if(faults_.begin(), faults_.end(), same));
}

std::string task_name(const Plan& plan, TaskId task) {
    return fmt::format("#{} {}", task.value, plan.graph.regions[plan.graph[task].region].name);
}

std::string event_name(const Plan& plan, EventId event) {
    return fmt::format("event #{} '{}'", event.value, plan.events.at(event.index()).name);
}

std::string bytes_name(const Plan& plan, BufferId id, Range bytes) {
    const Buffer& buffer = plan.graph.regions[id];
    if (buffer.role == BufferRole::Arena) {
        const std::int64_t base = plan.offsets.at(id.index());
        return fmt::format("arena bytes [{}, {}) of '{}'", base + bytes.begin, base + bytes.end, buffer.name);
    }
    return fmt::format("bytes [{}, {}) of {} '{}'", bytes.begin, bytes.end, role_name(buffer.role),
                       buffer.name);
}

std::string box_name(const Box& box) {
    std::string text = "[";
    for (std::size_t d = 0; d < box.size(); ++d) {
        text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box[d].begin, box[d].end);
    }
    return text + "]";
}

}  // namespace stretto::verifying
