#include "backends/cuda/stamp_memory.h"

namespace stretto::cuda {
namespace {

std::size_t count_loads(const Plan& plan) {
    std::size_t count = 0;
    for (const Worker& worker : plan.workers) count += worker.stream.size();
    return count;
}

template <class T>
std::vector<T> items_in(const DeviceMemory& memory, std::size_t count) {
    std::vector<T> items(count);
    if (count == 0) return items;
    check(driver().copy_to_host(items.data(), memory.address(), count * sizeof(T)), "cuMemcpyDtoH");
    return items;
}

}  // namespace

StampMemory::StampMemory(const Plan& plan)
    : plan_(plan),
      load_count_(count_loads(plan)),
      tasks_(plan.graph.tasks.size() * sizeof(abi::TaskStamps)),
      loads_(load_count_ * sizeof(abi::U64)),
      workers_(plan.workers.size() * sizeof(abi::WorkerStamps)) {}

abi::TraceTarget StampMemory::prepare() const {
    tasks_.clear();
    finish_copies();
    return {tasks_.as<abi::TaskStamps>(), loads_.as<abi::U64>(), workers_.as<abi::WorkerStamps>()};
}

Trace StampMemory::read() const {
    return align(
        {items_in<abi::TaskStamps>(tasks_, plan_.graph.tasks.size()), items_in<abi::U64>(loads_, load_count_),
         items_in<abi::WorkerStamps>(workers_, plan_.workers.size())},
        plan_);
}

}  // namespace stretto::cuda
