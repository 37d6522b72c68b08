#include "backends/cpu/word_courier.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "abi/abi.h"
#include "backends/reference/word_values.h"

namespace stretto {
namespace {

constexpr std::int64_t kAlignment = 64;

template <class Word>
std::atomic_ref<Word> word_at(std::byte* words, std::int64_t element) {
    return std::atomic_ref(reinterpret_cast<Word*>(words)[element]);
}

/// Copies the value of a word to `to`, if it has come; else returns false.
bool take(const Buffer& buffer, std::byte* words, std::int64_t element, std::uint32_t tag, std::byte* to) {
    const std::size_t size = size_of(buffer.dtype);
    if (buffer.packed) {
        const std::uint32_t word = word_at<std::uint32_t>(words, element).load(std::memory_order_relaxed);
        if (((word ^ tag) & abi::kPackedTag) != 0) return false;
        unpack_word(word, to, size);
    } else {
        const std::uint64_t word = word_at<std::uint64_t>(words, element).load(std::memory_order_relaxed);
        if (static_cast<std::uint32_t>(word >> 32) != tag) return false;
        const auto value = static_cast<std::uint32_t>(word);
        std::memcpy(to, &value, size);
    }
    return true;
}

void give(const Buffer& buffer, std::byte* words, std::int64_t element, std::uint32_t tag,
          const std::byte* from) {
    const std::size_t size = size_of(buffer.dtype);
    if (buffer.packed) {
        word_at<std::uint32_t>(words, element).store(packed_word(from, size, tag), std::memory_order_relaxed);
    } else {
        std::uint32_t value = 0;
        std::memcpy(&value, from, size);
        word_at<std::uint64_t>(words, element)
            .store(std::uint64_t{tag} << 32 | value, std::memory_order_relaxed);
    }
}

}  // namespace

WordCourier::WordCourier(const Plan& plan, std::byte* arena)
    : plan_(plan), arena_(arena), places_(plan.graph.regions.buffers.size(), -1) {}

/// The copies of the buffers that the task touches, one behind the other, filled with NaN.
void WordCourier::make_room(const Task& task) {
    std::fill(places_.begin(), places_.end(), -1);
    std::int64_t end = 0;
    for (const auto* prints : {&task.reads, &task.writes}) {
        for (const Footprint& print : *prints) {
            std::int64_t& place = places_[print.buffer.index()];
            if (!tagged(print.buffer) || place >= 0) continue;
            place = end;
            const Buffer& buffer = plan_.graph.regions[print.buffer];
            const std::int64_t bytes =
                volume(buffer.shape) * static_cast<std::int64_t>(size_of(buffer.dtype));
            end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
        }
    }
    memory_.assign(static_cast<std::size_t>(end), std::byte{0xff});
}

std::optional<BufferId> WordCourier::receive(const Task& task, std::uint32_t tag,
                                             const std::function<bool(int polls)>& wait) {
    make_room(task);
    for (const Footprint& read : task.reads) {
        if (!tagged(read.buffer)) continue;
        const Buffer& buffer = plan_.graph.regions[read.buffer];
        const std::size_t size = size_of(buffer.dtype);
        std::byte* words = arena_ + plan_.offsets[read.buffer.index()];
        std::byte* copy = memory_.data() + places_[read.buffer.index()];
        const bool all = for_each_element(buffer.shape, read.box, [&](std::int64_t element) {
            std::byte* to = copy + element * static_cast<std::int64_t>(size);
            for (int polls = 0; !take(buffer, words, element, tag, to); ++polls) {
                if (!wait(polls)) return false;
            }
            return true;
        });
        if (!all) return read.buffer;
    }
    return std::nullopt;
}

Buffers WordCourier::bases(std::span<std::byte* const> bases) {
    bases_.assign(bases.begin(), bases.end());
    for (std::size_t b = 0; b < places_.size(); ++b) {
        if (places_[b] >= 0) bases_[b] = memory_.data() + places_[b];
    }
    return bases_;
}

void WordCourier::publish(const Task& task, std::uint32_t tag) {
    for (const Footprint& write : task.writes) {
        if (!tagged(write.buffer)) continue;
        const Buffer& buffer = plan_.graph.regions[write.buffer];
        const std::size_t size = size_of(buffer.dtype);
        std::byte* words = arena_ + plan_.offsets[write.buffer.index()];
        const std::byte* copy = memory_.data() + places_[write.buffer.index()];
        static_cast<void>(for_each_element(buffer.shape, write.box, [&](std::int64_t element) {
            give(buffer, words, element, tag, copy + element * static_cast<std::int64_t>(size));
            return true;
        }));
    }
}

}  // namespace stretto
