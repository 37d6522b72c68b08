#include "simplify/strip_expr.h"

#include <limits>

namespace stretto {
namespace {

std::int32_t at_least_lowest(Expr& expr, std::int32_t shift) {
    const auto lowest = expr.constant(std::numeric_limits<float>::lowest(), DType::F32);
    return expr.apply(Op::Max, {shift, lowest});
}

}  // namespace

IndexMap cut(const IndexMap& map, std::size_t dim, Range range) {
    auto result = sliced(normalized(map), dim, range.begin, range.size());
    if (!result) throw Uncut();
    return *result;
}

IndexMap map_of_strip(const IndexMap& map, const StripOf& of, const Shape& strip) {
    const Shape strides = row_major_strides(strip);
    IndexMap inner;
    for (std::size_t d = 0; d < of.whole.size(); ++d) inner.dims.push_back({atom(of.whole[d], strides[d])});
    inner.dims[of.dim].front().lo = of.range.begin;
    inner.dims[of.dim].front().hi = of.range.end;
    inner.offset = -of.range.begin * strides[of.dim];
    auto result = composed(map, of.whole, inner);
    if (!result) throw Uncut();
    return *result;
}

Expr without_unit_dims(Expr expr, const Shape& shape) {
    for (std::size_t d = shape.size(); d-- > 0;) {
        if (shape[d] != 1) continue;
        expr = rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            const ExprNode& node = expr.nodes[i];
            const auto dim = static_cast<std::int64_t>(d);
            if (node.op != Op::Index || node.integer < dim) return std::nullopt;
            if (node.integer == dim) return out.constant(0, DType::I64);
            return out.index(static_cast<int>(node.integer) - 1);
        });
        for (Access& access : expr.accesses) access.map = removed_dim(access.map, d);
    }
    return folded(expr);
}

std::int32_t load_whole(Expr& expr, ValueId value, const Type& type) {
    return expr.load({value.value, type.dtype, identity_map(type.shape), {}});
}

Expr shifted(const Expr& term, ValueId shift, const Shape& rows, const Shape& extents) {
    const ExprNode& difference = term.nodes[static_cast<std::size_t>(term.nodes.back().args[0])];
    Access access{shift.value, DType::F32, identity_map(rows), {}};
    for (const std::int64_t extent : extents) access.map.dims.push_back({atom(extent, 0)});
    Expr result;
    const std::int32_t x = copy_into(result, term, difference.args[0]);
    const std::int32_t least = at_least_lowest(result, result.load(std::move(access)));
    result.apply(Op::Exp, {result.apply(Op::Sub, {x, least})});
    return result;
}

Expr sum_of_shifted(const ShiftedSum& a, const ShiftedSum& b, ValueId largest, const Shape& rows) {
    const Type type{DType::F32, rows};
    Expr expr;
    const std::int32_t shift = at_least_lowest(expr, load_whole(expr, largest, type));
    const auto moved = [&](const ShiftedSum& of) {
        const std::int32_t own = at_least_lowest(expr, load_whole(expr, of.shift, type));
        const std::int32_t factor = expr.apply(Op::Exp, {expr.apply(Op::Sub, {own, shift})});
        return expr.apply(Op::Mul, {load_whole(expr, of.sum, type), factor});
    };
    const std::int32_t first = moved(a);
    expr.apply(Op::Add, {first, moved(b)});
    return expr;
}

Expr put_together(const std::vector<StripPiece>& pieces, const Type& type, std::size_t dim) {
    const std::int64_t begin = pieces.front().range.begin;
    const std::int64_t extent = pieces.back().range.end - begin;
    Expr expr;
    std::vector<std::int32_t> values;
    for (const StripPiece& piece : pieces) {
        Shape shape = type.shape;
        shape[dim] = piece.range.size();
        const std::int64_t before = piece.range.begin - begin;
        const auto map = padded(identity_map(shape), dim, before, extent - before - piece.range.size());
        if (!map) throw Uncut();
        values.push_back(expr.load({piece.value.value, type.dtype, *map, {}}));
    }
    std::int32_t value = values.back();
    for (std::size_t i = values.size() - 1; i-- > 0;) {
        const auto end = expr.constant(static_cast<double>(pieces[i].range.end - begin), DType::I64);
        const auto inside = expr.apply(Op::Lt, DType::Bool, {expr.index(static_cast<int>(dim)), end});
        value = expr.apply(Op::Select, type.dtype, {inside, values[i], value});
    }
    return extracted(expr, value);
}

}  // namespace stretto
