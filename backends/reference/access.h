#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/reference/lanes.h"
#include "graph/expr.h"

namespace stretto {

/// Marks a lane whose access is masked.
inline constexpr std::int64_t kMasked = INT64_MIN;

/// Element offsets of a block that follow each other regularly: lane i is at first + i * stride.
struct Run {
    std::int64_t first = 0;
    std::int64_t stride = 0;
};

/// An Access made ready to give element offsets of whole blocks.
class CompiledAccess {
public:
    explicit CompiledAccess(const Access& access);

    [[nodiscard]] BufferId buffer() const { return buffer_; }
    [[nodiscard]] DType type() const { return type_; }

    /// Offset of one coordinate of an access without indirect coordinates; kMasked where masked.
    [[nodiscard]] std::int64_t at(std::span<const std::int64_t> coordinate) const;

    /// The block's offsets, where they are regular and no lane is masked.
    [[nodiscard]] std::optional<Run> run(const Block& block) const;

    /// Offset of every lane, or kMasked.
    void offsets(const Block& block, std::span<const std::int64_t* const> indirect, std::int64_t* out) const;

    /// Reads the block's elements into lanes of `domain`; masked lanes get zero. `indirect[i]` holds the lanes' values of
    /// indirect coordinate i; values outside the buffer are clamped into it.
    void read(const Block& block, std::span<const std::int64_t* const> indirect, Buffers buffers,
              Workspace& workspace, void* out, Domain domain) const;

    /// Rounds lanes of `domain` to the element type and writes them, but for masked ones.
    void write(const Block& block, std::span<const std::int64_t* const> indirect, Buffers buffers,
               Workspace& workspace, const void* lanes, Domain domain) const;

    /// Writes `count` neighbouring elements from element `first` of the buffer on.
    void write_row(std::int64_t first, std::int64_t count, Buffers buffers, Workspace& workspace,
                   const void* values, Domain domain) const;

private:
    struct Digit {
        std::int64_t inner = 1;  ///< product of the extents of the digits inside this one
        Atom atom;
    };

    void add_dim_of_consecutive(const Block& block, std::int64_t* out) const;
    void add_dim(std::size_t dim, const std::int64_t* coordinate, std::int32_t lanes,
                 std::int64_t* out) const;
    [[nodiscard]] std::int64_t offset_in_dim(std::size_t dim, std::int64_t coordinate) const;

    BufferId buffer_;
    DType type_;
    std::int64_t offset_;
    std::vector<std::vector<Digit>> dims_;
    std::vector<Access::Indirect> indirect_;
};

}  // namespace stretto
