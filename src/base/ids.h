#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace stretto {

/// An index into one particular table; ids of different tables do not mix.
template <class Tag>
struct Id {
    std::int32_t value = -1;

    constexpr Id() = default;
    constexpr explicit Id(std::int64_t v) : value(static_cast<std::int32_t>(v)) {}
    [[nodiscard]] constexpr bool valid() const { return value >= 0; }
    [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
    constexpr auto operator<=>(const Id&) const = default;
};

using ValueId = Id<struct ValueTag>;    ///< a value of a Graph
using BufferId = Id<struct BufferTag>;  ///< a buffer of a RegionGraph
using RegionId = Id<struct RegionTag>;  ///< a region of a RegionGraph
using TaskId = Id<struct TaskTag>;      ///< a task of a TaskGraph
using EventId = Id<struct EventTag>;    ///< an event of a Plan

}  // namespace stretto

template <class Tag>
struct std::hash<stretto::Id<Tag>> {
    std::size_t operator()(stretto::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
