#pragma once

#include <vector>

#include "fuse/region.h"
#include "support/generators.h"

namespace stretto {

/// Builds random programs of one MapRegion whose result is exact: F64 nodes use any operation, F32 and narrower ones
/// only operations that are rounded correctly, so that double and float arithmetic agree in every bit.
class RandomMap {
public:
    RandomMap();

    [[nodiscard]] const RegionGraph& graph() const { return graph_; }

private:
    std::int32_t buffer(DType type, std::int64_t count, BufferRole role);
    [[nodiscard]] Access access(BufferRole role, DType type, bool masks);
    void grow(Expr& expr);
    void load(Expr& expr);
    void unary(Expr& expr, std::int32_t x);
    void binary(Expr& expr, std::int32_t x, std::int32_t y);
    void convert(Expr& expr, std::int32_t x);
    [[nodiscard]] std::int32_t any_integer(const Expr& expr) const;

    Shape space_;
    RegionGraph graph_;
};

}  // namespace stretto
