#include <cmath>
#include <optional>

#include "base/rounding.h"
#include "graph/expr.h"

namespace stretto {
namespace {

std::optional<double> constant_of(const ExprNode& node) {
    if (node.op != Op::Const) return std::nullopt;
    return is_float(node.type) ? node.value : static_cast<double>(node.integer);
}

/// Integers beyond this are not exact as doubles, so they are left alone.
constexpr double kExactInteger = 9007199254740992.0;

double python_mod(double a, double b) {
    const double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::optional<double> evaluated(Op op, double a, double b) {
    switch (op) {
        case Op::Neg:
            return -a;
        case Op::Abs:
            return std::fabs(a);
        case Op::Sqrt:
            return std::sqrt(a);
        case Op::Floor:
            return std::floor(a);
        case Op::Ceil:
            return std::ceil(a);
        case Op::Not:
            return a == 0 ? 1 : 0;
        case Op::Add:
            return a + b;
        case Op::Sub:
            return a - b;
        case Op::Mul:
            return a * b;
        case Op::Min:
            return std::fmin(a, b);
        case Op::Max:
            return std::fmax(a, b);
        case Op::FloorDiv:
            return b == 0 ? std::nullopt : std::optional(std::floor(a / b));
        case Op::Mod:
            return b == 0 ? std::nullopt : std::optional(python_mod(a, b));
        case Op::Lt:
            return a < b ? 1 : 0;
        case Op::Le:
            return a <= b ? 1 : 0;
        case Op::Eq:
            return a == b ? 1 : 0;
        case Op::Ne:
            return a != b ? 1 : 0;
        case Op::And:
            return a != 0 && b != 0 ? 1 : 0;
        case Op::Or:
            return a != 0 || b != 0 ? 1 : 0;
        default:
            return std::nullopt;
    }
}

class Folder {
public:
    explicit Folder(const Expr& from) : from_(from), done_(from.nodes.size(), -1) {}

    Expr run() {
        for (std::size_t i = 0; i < from_.nodes.size(); ++i) done_[i] = fold(from_.nodes[i]);
        return extracted(to_, done_.back());
    }

private:
    [[nodiscard]] const ExprNode& at(std::int32_t node) const {
        return to_.nodes[static_cast<std::size_t>(node)];
    }
    [[nodiscard]] std::optional<double> value(std::int32_t node) const { return constant_of(at(node)); }

    std::int32_t make_constant(double v, DType type) { return to_.constant(rounded(v, type), type); }

    std::int32_t fold(const ExprNode& node) {
        std::vector<std::int32_t> args;
        for (std::int32_t arg : node.args) args.push_back(done_[static_cast<std::size_t>(arg)]);
        if (node.op == Op::Load)
            return load(from_.accesses[static_cast<std::size_t>(node.integer)], std::move(args));
        if (args.empty()) return to_.add(node);
        if (const auto simpler = identity(node, args)) return *simpler;
        if (const auto known = constant(node, args)) return *known;
        return to_.apply(node.op, node.type, args);
    }

    /// An indirect coordinate that is a constant, or a coordinate of the iteration space, is part of the map.
    std::int32_t load(Access access, std::vector<std::int32_t> args) {
        const Shape shape = access.map.shape();
        for (std::size_t i = args.size(); i-- > 0;) {
            const auto [stride, extent] = access.indirect[i];
            const ExprNode& index = at(args[i]);
            const auto d = static_cast<std::size_t>(index.integer);
            if (index.op == Op::Const && !is_float(index.type) && index.integer >= 0 &&
                index.integer < extent) {
                access.map.offset += index.integer * stride;
            } else if (index.op == Op::Index && d < shape.size() && shape[d] <= extent) {
                add_coordinate(access.map.dims[d], stride);
            } else {
                continue;
            }
            access.indirect.erase(access.indirect.begin() + static_cast<std::ptrdiff_t>(i));
            args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
        }
        return to_.load(std::move(access), std::move(args));
    }

    /// Makes the dimension's coordinate add `stride` more elements for each step.
    static void add_coordinate(std::vector<Atom>& digits, std::int64_t stride) {
        for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
            digit->stride += stride;
            stride *= digit->extent;
        }
    }

    /// x + 0, x * 1, x & true, select(true, x, y), cast to the own type, ...: only where the type, and so the
    /// rounding, stays the same.
    std::optional<std::int32_t> identity(const ExprNode& node, const std::vector<std::int32_t>& args) {
        const auto is = [&](std::size_t i, double v) { return value(args[i]) == v; };
        const auto pick = [&](std::size_t i) -> std::optional<std::int32_t> {
            if (at(args[i]).type != node.type) return std::nullopt;
            return args[i];
        };
        switch (node.op) {
            case Op::Add:
                if (is(1, 0)) return pick(0);
                if (is(0, 0)) return pick(1);
                break;
            case Op::Sub:
                if (is(1, 0)) return pick(0);
                break;
            case Op::Mul:
                if (is(1, 1)) return pick(0);
                if (is(0, 1)) return pick(1);
                break;
            case Op::Div:
                if (is(1, 1)) return pick(0);
                break;
            case Op::Pow:
                if (is(1, 1)) return pick(0);
                if (is(1, 2)) return to_.apply(Op::Mul, node.type, {args[0], args[0]});
                break;
            case Op::And:
                if (is(0, 0) || is(1, 0)) return make_constant(0, DType::Bool);
                if (value(args[1])) return pick(0);
                if (value(args[0]) || args[0] == args[1]) return pick(1);
                break;
            case Op::Or:
                if (is(1, 0)) return pick(0);
                if (is(0, 0) || args[0] == args[1]) return pick(1);
                if (value(args[0]) || value(args[1])) return make_constant(1, DType::Bool);
                break;
            case Op::BitOr:
                if (is(1, 0)) return pick(0);
                if (is(0, 0)) return pick(1);
                break;
            case Op::Not:
                if (at(args[0]).op == Op::Not) return at(args[0]).args[0];
                break;
            case Op::Select:
                if (args[1] == args[2]) return pick(1);
                if (const auto condition = value(args[0])) return pick(*condition != 0 ? 1 : 2);
                break;
            case Op::Cast:
                return cast_identity(node, args[0]);
            default:
                break;
        }
        return std::nullopt;
    }

    std::optional<std::int32_t> cast_identity(const ExprNode& node, std::int32_t arg) {
        const ExprNode& from = at(arg);
        if (from.type == node.type) return arg;
        // Narrow -> wide -> the same narrow type gives the number back.
        if (from.op == Op::Cast) {
            const ExprNode& inner = at(from.args[0]);
            const bool widening =
                is_narrow_float(inner.type) && (from.type == DType::F32 || from.type == DType::F64);
            if (widening && inner.type == node.type) return from.args[0];
        }
        return std::nullopt;
    }

    std::optional<std::int32_t> constant(const ExprNode& node, const std::vector<std::int32_t>& args) {
        const auto a = value(args[0]);
        if (!a || std::fabs(*a) > kExactInteger) return std::nullopt;
        if (node.op == Op::Cast) return make_constant(*a, node.type);
        double b = 0;
        if (args.size() == 2) {
            const auto second = value(args[1]);
            if (!second || std::fabs(*second) > kExactInteger) return std::nullopt;
            b = *second;
        }
        if (args.size() > 2) return std::nullopt;
        const auto result = evaluated(node.op, *a, b);
        if (!result || !std::isfinite(*result)) return std::nullopt;
        return make_constant(*result, node.type);
    }

    const Expr& from_;
    Expr to_;
    std::vector<std::int32_t> done_;
};

}  // namespace

Expr folded(const Expr& expr) { return expr.empty() ? expr : Folder(expr).run(); }

}  // namespace stretto
