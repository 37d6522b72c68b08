#include "fuse/ragged.h"

namespace stretto {

Expr counted_left_side(const MatMulRegion& region) {
    Expr a = region.a;
    if (!region.ragged) return a;
    const std::int32_t value = a.root();
    const DType type = a.type();
    const std::int32_t k = a.index(3);
    const std::int32_t begun = a.apply(Op::Le, {a.load(region.ragged->begin), k});
    const std::int32_t inside = a.apply(Op::And, {begun, a.apply(Op::Lt, {k, a.load(region.ragged->end)})});
    a.apply(Op::Select, type, {inside, value, a.constant(0, type)});
    return a;
}

}  // namespace stretto
