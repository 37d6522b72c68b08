#include "runtime/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "schedule/loads.h"

namespace stretto {
namespace {

std::string size(std::int64_t bytes) {
    const auto number = static_cast<double>(bytes);
    if (number < 1e6) return fmt::format("{:.1f} kB", number / 1e3);
    if (number < 1e9) return fmt::format("{:.1f} MB", number / 1e6);
    return fmt::format("{:.2f} GB", number / 1e9);
}

/// What would fit. What grows does so in proportion to the batch, more or less: kernels for fewer rows may be cut
/// otherwise.
std::string advice(const MemoryNeed& need, std::int64_t for_intermediates, const Room& room) {
    const std::int64_t growing = need.intermediates - need.lasting;
    const std::int64_t left = for_intermediates - need.lasting;
    if (growing <= 0 || left <= 0) {
        return "no smaller batch is sure to fit: free memory, or take a smaller model or a larger device";
    }
    const double share = std::min(1.0, static_cast<double>(left) / static_cast<double>(growing));
    const auto rows = static_cast<std::int64_t>(share * static_cast<double>(room.batch));
    if (room.batch == 0) {
        return fmt::format("intermediates grow with the inputs: about {:.0f} % of their size fits",
                           100 * share);
    }
    if (rows == 0) return fmt::format("not even one row of the {} of a batch is sure to fit", room.batch);
    const std::string parts =
        room.takes_parts ? "" : ", or with accumulate=True for microbatches of that size";
    return fmt::format("a batch of about {} fits, this one has {}: compile for that{}", rows, room.batch,
                       parts);
}

}  // namespace

MemoryNeed memory_need(const Program& program) {
    MemoryNeed need;
    need.intermediates = program.plan.arena_bytes;
    need.packed = packed_bytes(program.plan);
    const Emission& emission = program.emission;
    need.code = static_cast<std::int64_t>(2 * (emission.records.size() + emission.loads.size()) +
                                          emission.workers.size());
    const auto& buffers = program.plan.graph.regions.buffers;
    std::set<std::int64_t> kept;  // element counts of what the model holds: gradients have the same
    for (const Buffer& buffer : buffers) {
        if (buffer.role == BufferRole::Parameter || buffer.role == BufferRole::State) {
            kept.insert(volume(buffer.shape));
        }
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const std::int64_t bytes = buffers[i].size_bytes();
        switch (buffers[i].role) {
            case BufferRole::Parameter:
                need.parameters += bytes;
                break;
            case BufferRole::State:
                need.state += bytes;
                break;
            case BufferRole::Input:
            case BufferRole::Output:
                need.arguments += bytes;
                break;
            case BufferRole::Constant:
                need.code += bytes;
                break;
            case BufferRole::Arena:
                if (program.plan.offsets.at(i) >= 0 && kept.contains(volume(buffers[i].shape))) {
                    need.lasting += bytes;
                }
                break;
        }
    }
    need.lasting = std::min(need.lasting, need.intermediates);
    return need;
}

void check_fits(const Program& program, const Room& room) {
    const MemoryNeed need = memory_need(program);
    const std::int64_t tensors = need.parameters + need.state + need.arguments;
    const std::int64_t copies = room.packs_weights ? need.packed : 0;
    const std::int64_t beside = need.code + copies + (room.holds_tensors ? 0 : tensors);
    if (beside + need.intermediates <= room.bytes) return;
    throw UserError(fmt::format(
        "the program needs {} of memory, {} are free{}\n"
        "  parameters {}, state {}, inputs and outputs {}, intermediates {}, tasks and constants {}{}\n  {}",
        size(beside + need.intermediates), size(std::max<std::int64_t>(room.bytes, 0)),
        room.holds_tensors ? " beside its parameters and state" : "", size(need.parameters), size(need.state),
        size(need.arguments), size(need.intermediates), size(need.code),
        copies > 0 ? fmt::format(", packed copies of weights {}", size(copies)) : "",
        advice(need, room.bytes - beside, room)));
}

/// Without formatted input of a stream: a process may hold two C++ libraries, PyTorch's and ours, and its facets are of one.
std::optional<std::int64_t> free_host_memory() {
    constexpr const char* kFile = "/proc/meminfo";
    constexpr std::string_view kField = "MemAvailable:";
    if (!std::filesystem::exists(kFile)) return std::nullopt;
    const std::string text = read_file(kFile);
    std::size_t at = text.find(kField);
    if (at == std::string::npos) return std::nullopt;
    at = text.find_first_not_of(' ', at + kField.size());
    std::int64_t kilobytes = 0;
    const char* end = text.data() + text.size();
    if (at == std::string::npos || std::from_chars(text.data() + at, end, kilobytes).ec != std::errc{})
        return std::nullopt;
    return kilobytes * 1024;
}

}  // namespace stretto
