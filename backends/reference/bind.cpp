#include "backends/reference/bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stretto {

Arena::Arena(const Plan& plan) : bytes_(static_cast<std::size_t>(plan.arena_bytes)) {
    ensure(plan.offsets.size() == plan.graph.regions.buffers.size(), "the plan's buffers are not placed");
    for (std::size_t b = 0; b < plan.offsets.size(); ++b) {
        const Buffer& buffer = plan.graph.regions.buffers[b];
        if (buffer.tagged) words_.push_back({plan.offsets[b], plan.offsets[b] + buffer.size_bytes()});
    }
    poison();
}

void Arena::poison() {
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xff});
    for (Range words : words_) std::fill_n(bytes_.begin() + words.begin, words.size(), std::byte{0});
}

std::vector<std::byte*> base_addresses(const Plan& plan, const Bindings& bindings, std::byte* arena) {
    const std::vector<Buffer>& buffers = plan.graph.regions.buffers;
    std::vector<std::byte*> bases(buffers.size(), nullptr);
    std::string missing;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const Buffer& buffer = buffers[i];
        if (buffer.role == BufferRole::Arena) {
            bases[i] = arena + plan.offsets[i];
        } else if (buffer.role == BufferRole::Constant) {
            // Tasks never write constants: verify proves it, and the addresses have one type for all roles.
            bases[i] = const_cast<std::byte*>(buffer.bytes->data());
        } else if (i < bindings.size()) {
            bases[i] = static_cast<std::byte*>(bindings[i]);
        }
        if (bases[i] == nullptr && buffer.size_bytes() > 0) missing += fmt::format(" '{}'", buffer.name);
    }
    if (!missing.empty())
        throw RunError("no memory is bound to buffers" + missing + "; bind them before the run");
    return bases;
}

}  // namespace stretto
