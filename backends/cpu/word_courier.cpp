#include "backends/cpu/word_courier.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace stretto {
namespace {

constexpr std::int64_t kAlignment = 64;

/// Calls `use(element)` for every element of a box, by its row-major number, until `use` returns false.
template <class Use>
bool for_each_element(const Shape& shape, const Box& box, Use&& use) {
    if (volume(box) == 0) return true;
    const Shape strides = row_major_strides(shape);
    std::vector<std::int64_t> at;
    for (Range range : box) at.push_back(range.begin);
    while (true) {
        std::int64_t element = 0;
        for (std::size_t d = 0; d < at.size(); ++d) element += at[d] * strides[d];
        if (!use(element)) return false;
        std::size_t d = at.size();
        while (d > 0 && ++at[d - 1] == box[d - 1].end) {
            at[d - 1] = box[d - 1].begin;
            --d;
        }
        if (d == 0) return true;
    }
}

std::atomic_ref<std::uint64_t> word_at(std::byte* buffer, std::int64_t element) {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(buffer)[element]);
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
            std::uint64_t word = word_at(words, element).load(std::memory_order_relaxed);
            for (int polls = 0; static_cast<std::uint32_t>(word >> 32) != tag; ++polls) {
                if (!wait(polls)) return false;
                word = word_at(words, element).load(std::memory_order_relaxed);
            }
            const auto value = static_cast<std::uint32_t>(word);
            std::memcpy(copy + element * static_cast<std::int64_t>(size), &value, size);
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
            std::uint32_t value = 0;
            std::memcpy(&value, copy + element * static_cast<std::int64_t>(size), size);
            word_at(words, element).store(std::uint64_t{tag} << 32 | value, std::memory_order_relaxed);
            return true;
        }));
    }
}

}  // namespace stretto
