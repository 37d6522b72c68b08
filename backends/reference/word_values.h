#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "backends/reference/lanes.h"
#include "schedule/plan.h"

namespace stretto {

/// Calls `use(element)` for every element of a box of a buffer, by its row-major number, until `use` returns false. False:
/// it did.
bool for_each_element(const Shape& shape, const Box& box, const std::function<bool(std::int64_t)>& use);

/// The packed word with the value of an element of `size` bytes, 2 or 4, and a tag of which the lowest bit counts.
[[nodiscard]] std::uint32_t packed_word(const std::byte* element, std::size_t size, std::uint32_t tag);

/// Writes the value of a packed word as an element of `size` bytes.
void unpack_word(std::uint32_t word, std::byte* element, std::size_t size);

/// Gives what a task wrote to packed buffers the values that words would carry. The buffers hold plain elements.
void round_to_words(const Plan& plan, const Task& task, Buffers bases);

}  // namespace stretto
