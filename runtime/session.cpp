#include "runtime/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <utility>

#include "abi/abi.h"
#include "base/error.h"

namespace stretto {
namespace {

std::string describe(DType dtype, const Shape& shape) {
    return fmt::format("{}[{}]", name(dtype), fmt::join(shape, ","));
}

/// Between two looks at the progress of a launch.
constexpr std::chrono::microseconds kPoll{50};
/// Iterations of one launch, at most.
constexpr std::uint64_t kEndless = std::uint64_t{1} << 30;

}  // namespace

Session::Session(std::shared_ptr<const Program> program, Backend backend, const SessionOptions& options)
    : program_(std::move(program)),
      executor_(make_executor(*program_, backend,
                              {.traced = options.traced, .packed_weights = options.packed_weights})),
      memory_(make_memory(backend)) {
    const auto& buffers = program_->plan.graph.regions.buffers;
    storage_.resize(buffers.size());
    bindings_.resize(buffers.size(), nullptr);
    given_.resize(buffers.size(), false);
    on_host_.resize(buffers.size(), false);
    for (const std::string& name : options.states_on_host) {
        const BufferId id = buffer_named(program_->plan, name);
        if (buffer(id).role != BufferRole::State) {
            throw UserError(
                fmt::format("'{}' is no state: only states can be read while iterations run", name));
        }
        on_host_[id.index()] = true;
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        if (buffers[i].role == BufferRole::Arena || buffers[i].role == BufferRole::Constant) continue;
        const auto bytes = static_cast<std::size_t>(buffers[i].size_bytes());
        storage_[i] = on_host_[i] ? memory_->allocate_on_host(bytes) : memory_->allocate(bytes);
        bindings_[i] = storage_[i].get();
        given_[i] = buffers[i].role == BufferRole::Output;
    }
    for (const auto& [name, tensor] : program_->tensors) copy_in(buffer_named(program_->plan, name), tensor);
}

Session::~Session() = default;

void Session::copy_in(BufferId id, const HostTensor& tensor) {
    if (on_host_[id.index()]) {
        std::memcpy(bindings_[id.index()], tensor.bytes.get(), tensor.size);
    } else {
        memory_->copy_in(bindings_[id.index()], tensor.bytes.get(), tensor.size);
    }
    given_[id.index()] = true;
}

void Session::set(std::string_view name, const HostTensor& tensor) {
    const BufferId id = buffer_named(program_->plan, name);
    const Buffer& target = buffer(id);
    if (target.role != BufferRole::Input && target.role != BufferRole::State) {
        throw UserError(fmt::format("'{}' is {} {}; only inputs and states can be set", name,
                                    target.role == BufferRole::Output ? "an" : "a",
                                    stretto::name(target.role)));
    }
    if (tensor.dtype != target.dtype || tensor.shape != target.shape) {
        throw UserError(fmt::format("'{}' is {}, but the given tensor is {}", name,
                                    describe(target.dtype, target.shape),
                                    describe(tensor.dtype, tensor.shape)));
    }
    copy_in(id, tensor);
}

HostTensor Session::get(std::string_view name) const {
    const BufferId id = buffer_named(program_->plan, name);
    const Buffer& source = buffer(id);
    if (source.role == BufferRole::Output && !has_run_) {
        throw UserError(fmt::format("output '{}' has no value before the first run", name));
    }
    const auto size = static_cast<std::size_t>(source.size_bytes());
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
    if (on_host_[id.index()]) {
        std::memcpy(bytes.get(), bindings_[id.index()], size);
    } else {
        memory_->copy_out(bytes.get(), bindings_[id.index()], size);
    }
    return {source.dtype, source.shape, {bytes, bytes.get()}, size};
}

void Session::require_inputs() const {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
        if (bindings_[i] == nullptr || given_[i]) continue;
        const Buffer& input = buffer(BufferId(static_cast<std::int64_t>(i)));
        missing.push_back(fmt::format("'{}' ({})", input.name, describe(input.dtype, input.shape)));
    }
    if (!missing.empty()) throw UserError(fmt::format("no value was given for {}", fmt::join(missing, ", ")));
}

void Session::run(std::uint32_t iterations) {
    require_inputs();
    executor_->run(bindings_, nullptr, {.count = iterations, .stop = {}, .progress = nullptr});
    executor_->synchronize();
    has_run_ = true;
}

std::uint64_t Session::run_granted(const Granted& granted) {
    require_inputs();
    const auto words = memory_->allocate_on_host(2 * sizeof(std::uint32_t));
    auto* const allowed = static_cast<std::uint32_t*>(words.get());
    std::uint32_t* const progress = allowed + 1;
    std::uint64_t done = 0;
    std::uint64_t limit = granted(0);
    while (limit > done) {
        const std::uint64_t first = done;
        const auto allow = [&] {
            const std::uint64_t more = limit > first ? std::min(limit - first, kEndless) : 0;
            std::atomic_ref(*allowed).store(static_cast<std::uint32_t>(more));
        };
        allow();
        std::atomic_ref(*progress).store(0);
        auto launch = std::async(std::launch::async, [&] {
            executor_->run(bindings_, nullptr, {kEndless, {}, progress, allowed});
            executor_->synchronize();
        });
        try {
            for (bool is_over = false; !is_over;) {
                // Before the look at its progress, which is the last one then.
                is_over = launch.wait_for(kPoll) == std::future_status::ready;
                const std::uint64_t now = first + (std::atomic_ref(*progress).load() & ~abi::kEnded);
                if (now == done) continue;
                done = now;
                has_run_ = true;
                limit = granted(done);
                allow();
            }
        } catch (...) {
            std::atomic_ref(*allowed).store(0);
            launch.wait();
            throw;
        }
        launch.get();
    }
    return done;
}

void Session::reset_state() {
    for (const auto& [name, tensor] : program_->tensors) {
        const BufferId id = buffer_named(program_->plan, name);
        if (buffer(id).role == BufferRole::State) copy_in(id, tensor);
    }
}

}  // namespace stretto
