#include "graph/promote.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace stretto {
namespace {

std::int32_t converted(Expr& expr, std::int32_t node, DType type) {
    const DType from = expr.nodes.at(static_cast<std::size_t>(node)).type;
    return compute_type(from) == type ? node : expr.cast(node, type);
}

std::int32_t truth_of(Expr& expr, std::int32_t node) {
    const DType from = expr.nodes.at(static_cast<std::size_t>(node)).type;
    return from == DType::Bool ? node : expr.cast(node, DType::Bool);
}

bool compares(Op op) { return op == Op::Lt || op == Op::Le || op == Op::Eq || op == Op::Ne; }
bool is_logic(Op op) { return op == Op::And || op == Op::Or || op == Op::Not; }

}  // namespace

DType compute_type(DType type) {
    if (type == DType::F64) return DType::F64;
    return is_float(type) ? DType::F32 : DType::I64;
}

DType promoted(DType a, DType b) {
    if (a == b) return a;
    if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
    if (is_narrow_float(a) && is_narrow_float(b)) return DType::F32;
    return std::max(a, b);  // DType lists the types of each category from narrow to wide.
}

std::int32_t apply_typed(Expr& expr, Op op, DType result, std::vector<std::int32_t> args) {
    const auto type_of = [&](std::int32_t node) {
        return expr.nodes.at(static_cast<std::size_t>(node)).type;
    };
    if (op == Op::Cast) return expr.cast(args.at(0), result);
    DType compute = compute_type(result);
    if (compares(op)) compute = compute_type(promoted(type_of(args.at(0)), type_of(args.at(1))));
    for (std::size_t i = 0; i < args.size(); ++i) {
        const bool truth = is_logic(op) || (op == Op::Select && i == 0);
        args[i] = truth ? truth_of(expr, args[i]) : converted(expr, args[i], compute);
    }
    return expr.apply(op, result, std::move(args));
}

std::string to_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace stretto
