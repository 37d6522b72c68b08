#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "backends/reference/number.h"
#include "base/ids.h"

namespace stretto {

/// Most coordinates that are evaluated together.
inline constexpr std::int32_t kLanes = 256;

/// Base addresses of a plan's buffers, by BufferId.
using Buffers = std::span<std::byte* const>;

/// The coordinates of one evaluation, and the results of the main loop at them.
struct Block {
    std::int32_t lanes = 0;            ///< at most kLanes
    std::span<const std::int64_t> at;  ///< coordinate of lane 0, by dimension
    std::int32_t dim = -1;             ///< dimension in which lane i lies at at[dim] + i; others are at `at`
    /// Where not empty: every lane's coordinate in each dimension, [dimension][kLanes]; `at` and `dim` are not used.
    std::span<const std::int64_t> coordinates;
    std::span<const void* const> accumulators;  ///< Acc(j) of every lane, in `accumulator_domain`
    Domain accumulator_domain = Domain::F32;
    std::span<const double> stats;  ///< Stat(j), the same for all lanes
};

/// Sees every element that a task really touches. Offsets are in elements of the buffer.
class MemoryGuard {
public:
    virtual ~MemoryGuard() = default;
    virtual void read(BufferId buffer, std::int64_t first, std::int64_t stride, std::int64_t count) = 0;
    virtual void write(BufferId buffer, std::int64_t first, std::int64_t stride, std::int64_t count) = 0;
};

/// What the scratch memories of a workspace are for.
enum class Scratch : std::uint8_t {
    Coordinates,
    Left,
    Packed,
    Rows,
    Accumulators,
    Partials,
    Lanes,
    Group,
    Count
};

/// Memory of one thread for evaluating expressions and main loops; grows and is kept between tasks.
class Workspace {
public:
    MemoryGuard* guard = nullptr;  ///< none: nobody watches

    /// Registers of an expression: `count` arrays of kLanes values of 8 bytes, aligned to 64 bytes.
    [[nodiscard]] std::byte* registers(std::size_t count) { return grown(registers_, count * kLanes * 8); }

    /// At least `count` values of T, aligned to 64 bytes; their content is not defined.
    template <class T>
    [[nodiscard]] T* scratch(Scratch use, std::size_t count) {
        return reinterpret_cast<T*>(grown(scratch_[static_cast<std::size_t>(use)], count * sizeof(T)));
    }

private:
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
    };
    struct Memory {
        std::unique_ptr<std::byte[], Free> bytes;
        std::size_t size = 0;
    };

    static std::byte* grown(Memory& memory, std::size_t size) {
        if (memory.size < size) {
            memory.bytes.reset(static_cast<std::byte*>(::operator new[](size, std::align_val_t{64})));
            memory.size = size;
        }
        return memory.bytes.get();
    }

    Memory registers_;
    std::array<Memory, static_cast<std::size_t>(Scratch::Count)> scratch_;
};

}  // namespace stretto
