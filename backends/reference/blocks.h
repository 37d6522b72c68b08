#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "backends/reference/lanes.h"
#include "base/box.h"

namespace stretto {

/// Rows at least this long are walked one at a time, which keeps loads contiguous; shorter ones share blocks.
inline constexpr std::int64_t kLongRow = 32;

/// Cuts the row-major positions [positions.begin, positions.end) of `space` into blocks of lanes, in order.
class BlockWalk {
public:
    /// `rank` dimensions have room in the blocks' coordinates, of which `space` gives the first.
    BlockWalk(const Shape& space, Range positions, std::size_t rank, Workspace& workspace)
        : space_(space),
          position_(positions.begin),
          end_(positions.end),
          at_(rank, 0),
          by_row_(space.empty() || space.back() >= kLongRow || positions.size() == 1),
          coordinates_(by_row_ ? nullptr
                               : workspace.scratch<std::int64_t>(Scratch::Coordinates, rank * kLanes)) {
        if (!by_row_) std::fill_n(coordinates_, rank * kLanes, 0);
    }

    [[nodiscard]] bool done() const { return position_ >= end_; }
    [[nodiscard]] std::int64_t position() const { return position_; }  ///< Of the next block's first lane.

    /// The next block. Its spans are valid until the following call.
    [[nodiscard]] Block next() {
        unravel(position_, at_.data(), 1);
        Block block;
        block.at = at_;
        std::int64_t lanes = std::min<std::int64_t>(kLanes, end_ - position_);
        if (by_row_) {
            if (!space_.empty()) {
                block.dim = static_cast<std::int32_t>(space_.size()) - 1;
                lanes = std::min(lanes, space_.back() - at_[space_.size() - 1]);
            }
        } else {
            for (std::int64_t lane = 0; lane < lanes; ++lane)
                unravel(position_ + lane, coordinates_ + lane, kLanes);
            block.coordinates = {coordinates_, at_.size() * kLanes};
        }
        block.lanes = static_cast<std::int32_t>(lanes);
        position_ += lanes;
        return block;
    }

    /// Sets a dimension beyond `space` for all lanes of the current block.
    void set(std::size_t dim, std::int64_t coordinate) {
        at_[dim] = coordinate;
        if (!by_row_) std::fill_n(coordinates_ + dim * kLanes, kLanes, coordinate);
    }

private:
    void unravel(std::int64_t position, std::int64_t* out, std::int64_t stride) const {
        for (std::size_t d = space_.size(); d-- > 0;) {
            out[static_cast<std::int64_t>(d) * stride] = position % space_[d];
            position /= space_[d];
        }
    }

    const Shape& space_;
    std::int64_t position_;
    std::int64_t end_;
    std::vector<std::int64_t> at_;
    bool by_row_;
    std::int64_t* coordinates_;
};

}  // namespace stretto
