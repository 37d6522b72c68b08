#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "fuse/region.h"

namespace stretto {

/// How a region touches one buffer.
struct Touch {
    bool reads = false;
    bool writes = false;
    std::optional<Access> access;  ///< the one way in which it does; empty where there are several
};

/// Which regions of a graph touch which buffers, while regions are joined.
class Touches {
public:
    using OfRegion = std::map<std::int32_t, Touch>;  ///< by buffer

    explicit Touches(const RegionGraph& graph);

    [[nodiscard]] const OfRegion& of(std::size_t region) const { return of_region_[region]; }
    /// Buffers that the two regions touch together.
    [[nodiscard]] std::size_t buffers_of_both(std::size_t first, std::size_t second) const;

    /// The last region before `region` that it may not overtake; nothing where it may come first.
    [[nodiscard]] std::optional<std::size_t> last_conflict(std::size_t region) const;
    /// The first region after `region` that may not overtake it; nothing where it may come last.
    [[nodiscard]] std::optional<std::size_t> first_conflict(std::size_t region) const;

    /// Does one of the regions write what the other touches?
    [[nodiscard]] bool conflict(std::size_t first, std::size_t second) const;

    /// The last region before `region` that writes the buffer.
    [[nodiscard]] std::optional<std::size_t> last_writer(std::int32_t buffer, std::size_t region) const;

    /// Is the intermediate written by one region for `reader` alone?
    [[nodiscard]] bool is_for(std::int32_t buffer, std::size_t reader) const;

    /// Is the intermediate written by that region and no other?
    [[nodiscard]] bool is_filled_by(std::int32_t buffer, std::size_t writer) const;

    /// The region has changed.
    void update(std::size_t region);

private:
    [[nodiscard]] bool conflict(std::int32_t buffer, const Touch& touch, std::size_t other) const {
        return touch.writes || of_region_[other].at(buffer).writes;
    }

    const RegionGraph& graph_;
    std::vector<OfRegion> of_region_;
    std::map<std::int32_t, std::set<std::size_t>> users_;  ///< regions by buffer
};

/// Does the access give every position of the space an element of its own, known before the task runs?
[[nodiscard]] bool is_injective(const Access& access);

}  // namespace stretto
