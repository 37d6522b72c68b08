#pragma once

#include <optional>

#include "fuse/region.h"

namespace stretto {

/// A *group* is neighbours along one dimension, from a multiple of its length on, that one thread takes together: what lies
/// together in memory moves in one access of at most 16 bytes. No group is longer than this.
inline constexpr std::int64_t kMostInGroup = 8;

/// Work of fewer positions has one for each thread at most: what a thread takes together only leaves others idle.
inline constexpr std::int64_t kManyPositions = 1 << 15;

/// Do all neighbours along `dim` read `load`, a node of `expr`, at the same indirect coordinates, known before any result of
/// the region's main loop? So do those that have none.
[[nodiscard]] bool shares_place(const Expr& expr, const ExprNode& load, std::size_t dim);

/// Do groups of `count` neighbours along `dim` each read `load`, a node of `expr`, side by side?
[[nodiscard]] bool loads_together(const Expr& expr, const ExprNode& load, std::size_t dim,
                                  std::int64_t count);

/// As many neighbours along dimension `dim`, of `extent` positions, as fill 16 bytes of the narrowest elements that lie
/// together; 1 where none do. Where `rest`, the dimension may end in less than a whole group, if then everything that moves
/// within a group lies together.
[[nodiscard]] std::int64_t group_length(const Expr& term, std::size_t dim, std::int64_t extent, bool rest);

/// The same for a term and for stores, for which it is over; 1 where not everything that moves within a group lies together.
[[nodiscard]] std::int64_t group_length(const Expr& term, const std::vector<Store>& stores, std::size_t dim,
                                        std::int64_t extent);

/// The same for what stores of a region of `graph` read and write; 1 where their places depend on data, or elements have tags.
[[nodiscard]] std::int64_t group_length(const RegionGraph& graph, const std::vector<Store>& stores,
                                        std::size_t dim, std::int64_t extent, bool rest);

/// The same work over one dimension; nothing where an expression names coordinates.
[[nodiscard]] std::optional<MapRegion> flattened(MapRegion region);

/// How threads take the positions of a map.
struct MapGroups {
    enum class Way : std::uint8_t {
        Rows,      ///< groups along the last dimension of more than one position
        Flat,      ///< groups of positions in row-major order, whatever row they are in
        RowsRest,  ///< as Rows, and what is left of each row position by position
    };
    std::int64_t length = 1;
    Way way = Way::Rows;
    std::size_t dim = 0;
    std::int64_t alone = 0;  ///< accesses that step from element to element and move one at a time
};

[[nodiscard]] MapGroups map_groups(const RegionGraph& graph, const MapRegion& region);

}  // namespace stretto
