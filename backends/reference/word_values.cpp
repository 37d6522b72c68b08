#include "backends/reference/word_values.h"

#include <cstring>

#include "abi/abi.h"

namespace stretto {

bool for_each_element(const Shape& shape, const Box& box, const std::function<bool(std::int64_t)>& use) {
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

std::uint32_t packed_word(const std::byte* element, std::size_t size, std::uint32_t tag) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, element, size);
    const std::uint32_t value = size == 4 ? bits & ~abi::kPackedTag : bits << 16;
    return value | (tag & abi::kPackedTag);
}

void unpack_word(std::uint32_t word, std::byte* element, std::size_t size) {
    const std::uint32_t bits = size == 4 ? word & ~abi::kPackedTag : word >> 16;
    std::memcpy(element, &bits, size);
}

void round_to_words(const Plan& plan, const Task& task, Buffers bases) {
    for (const Footprint& write : task.writes) {
        const Buffer& buffer = plan.graph.regions[write.buffer];
        if (!buffer.packed) continue;
        const std::size_t size = size_of(buffer.dtype);
        for_each_element(buffer.shape, write.box, [&](std::int64_t element) {
            std::byte* at = bases[write.buffer.index()] + element * static_cast<std::int64_t>(size);
            unpack_word(packed_word(at, size, 0), at, size);
            return true;
        });
    }
}

}  // namespace stretto
