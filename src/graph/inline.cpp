#include "graph/inline.h"

#include "base/error.h"

namespace stretto {
namespace {

/// Node of `to` for digit `i` of the digits of coordinate `dim`.
std::int32_t digit_node(Expr& to, const std::vector<Atom>& digits, std::size_t i, std::size_t dim) {
    std::int64_t period = 1;
    for (std::size_t j = i + 1; j < digits.size(); ++j) period *= digits[j].extent;
    std::int32_t node = to.index(static_cast<int>(dim));
    if (period > 1) {
        node = to.apply(Op::FloorDiv, {node, to.constant(static_cast<double>(period), DType::I64)});
    }
    if (i > 0) {
        node = to.apply(Op::Mod, {node, to.constant(static_cast<double>(digits[i].extent), DType::I64)});
    }
    return node;
}

/// Node of `to` for offset + sum of digit * stride.
std::int32_t offset_node(Expr& to, const IndexMap& map) {
    std::int32_t sum = to.constant(static_cast<double>(map.offset), DType::I64);
    for (std::size_t d = 0; d < map.dims.size(); ++d) {
        for (std::size_t i = 0; i < map.dims[d].size(); ++i) {
            const Atom& a = map.dims[d][i];
            if (a.stride == 0 || a.extent == 1) continue;
            const std::int32_t digit = digit_node(to, map.dims[d], i, d);
            const std::int32_t stride = to.constant(static_cast<double>(a.stride), DType::I64);
            sum = to.apply(Op::Add, {sum, to.apply(Op::Mul, {digit, stride})});
        }
    }
    return sum;
}

/// Node of `to` that is true where no digit of `map` is masked; -1 where that is everywhere.
std::int32_t validity_node(Expr& to, const IndexMap& map) {
    std::int32_t all = -1;
    const auto both = [&](std::int32_t condition) {
        all = all < 0 ? condition : to.apply(Op::And, {all, condition});
    };
    for (std::size_t d = 0; d < map.dims.size(); ++d) {
        for (std::size_t i = 0; i < map.dims[d].size(); ++i) {
            const Atom& a = map.dims[d][i];
            if (!a.masked()) continue;
            const std::int32_t digit = digit_node(to, map.dims[d], i, d);
            if (a.lo > 0) both(to.apply(Op::Le, {to.constant(static_cast<double>(a.lo), DType::I64), digit}));
            if (a.hi < a.extent) {
                both(to.apply(Op::Lt, {digit, to.constant(static_cast<double>(a.hi), DType::I64)}));
            }
        }
    }
    return all;
}

/// Evaluates a producer's expression at a loaded coordinate, inside the consumer's expression.
class Substitution {
public:
    Substitution(Expr& to, const Access& outer, std::vector<std::int32_t> coordinates,
                 const Producer& producer)
        : to_(to), outer_(outer), coordinates_(std::move(coordinates)), producer_(producer) {}

    /// Node of `to` for the producer's result, or nothing.
    std::optional<std::int32_t> run() {
        if (!find_indirect_dims()) return std::nullopt;
        std::vector<std::int32_t> done;
        for (const ExprNode& node : producer_.expr->nodes) {
            const auto copied = copy(node, done);
            if (!copied) return std::nullopt;
            done.push_back(*copied);
        }
        std::int32_t result = done.back();
        const bool bare_load = producer_.expr->nodes.back().op == Op::Load;
        if (!bare_load) {
            const std::int32_t valid = validity_node(to_, outer_.map);
            if (valid >= 0) {
                const DType type = to_.nodes[static_cast<std::size_t>(result)].type;
                result = to_.apply(Op::Select, {valid, result, to_.constant(0, type)});
            }
        }
        return result;
    }

private:
    /// An indirect coordinate of the consumer must be one whole coordinate of the producer.
    bool find_indirect_dims() {
        const Shape strides = row_major_strides(producer_.shape);
        for (const auto& indirect : outer_.indirect) {
            std::size_t d = 0;
            while (d < strides.size() &&
                   (strides[d] != indirect.stride || producer_.shape[d] != indirect.extent)) {
                ++d;
            }
            if (d == strides.size()) return false;
            indirect_dims_.push_back(d);
        }
        return true;
    }

    std::optional<std::int32_t> copy(const ExprNode& node, const std::vector<std::int32_t>& done) {
        if (node.op == Op::Index) return coordinate(static_cast<std::size_t>(node.integer));
        std::vector<std::int32_t> args;
        for (std::int32_t arg : node.args) args.push_back(done[static_cast<std::size_t>(arg)]);
        if (node.op == Op::Load)
            return load(producer_.expr->accesses[static_cast<std::size_t>(node.integer)], args);
        ExprNode result = node;
        result.args = std::move(args);
        return to_.add(std::move(result));
    }

    std::optional<std::int32_t> coordinate(std::size_t dim) {
        const auto map = coordinate_map(outer_.map, producer_.shape, dim);
        if (!map) return std::nullopt;
        std::int32_t node = offset_node(to_, *map);
        for (std::size_t i = 0; i < indirect_dims_.size(); ++i) {
            if (indirect_dims_[i] == dim) node = to_.apply(Op::Add, {node, coordinates_[i]});
        }
        return node;
    }

    std::optional<std::int32_t> load(const Access& inner, std::vector<std::int32_t> args) {
        const auto map = composed(outer_.map, producer_.shape, inner.map);
        if (!map) return std::nullopt;
        Access access = inner;
        access.map = *map;
        for (std::size_t i = 0; i < indirect_dims_.size(); ++i) {
            const auto& digits = inner.map.dims[indirect_dims_[i]];
            if (digits.size() != 1 || digits[0].masked()) return std::nullopt;
            access.indirect.push_back({digits[0].stride, outer_.indirect[i].extent});
            args.push_back(coordinates_[i]);
        }
        return to_.load(std::move(access), std::move(args));
    }

    Expr& to_;
    const Access outer_;
    const std::vector<std::int32_t> coordinates_;
    const Producer& producer_;
    std::vector<std::size_t> indirect_dims_;
};

}  // namespace

std::optional<Expr> inlined(const Expr& consumer,
                            const std::function<std::optional<Producer>(std::int32_t)>& producer_of,
                            std::int32_t* failed) {
    Expr result;
    std::vector<std::int32_t> done;
    for (const ExprNode& node : consumer.nodes) {
        ExprNode copy = node;
        for (std::int32_t& arg : copy.args) arg = done[static_cast<std::size_t>(arg)];
        if (node.op == Op::Load) {
            const Access& access = consumer.accesses[static_cast<std::size_t>(node.integer)];
            if (const auto producer = producer_of(access.source)) {
                const auto value = Substitution(result, access, copy.args, *producer).run();
                if (!value) {
                    *failed = access.source;
                    return std::nullopt;
                }
                done.push_back(*value);
                continue;
            }
            copy.integer = result.add_access(access);
        }
        done.push_back(result.add(std::move(copy)));
    }
    return folded(extracted(result, done.back()));
}

std::optional<Expr> through_view(const Expr& expr, const IndexMap& outer, const Shape& shape) {
    Expr view;
    view.load({0, expr.type(), outer, {}});
    std::int32_t failed = -1;
    return inlined(
        view,
        [&](std::int32_t) {
            return Producer{&expr, shape};
        },
        &failed);
}

std::optional<Access> through_view(const Access& inner, const IndexMap& outer, const Shape& shape) {
    const auto map = composed(outer, shape, inner.map);
    if (!map) return std::nullopt;
    Access result = inner;
    result.map = *map;
    return result;
}

bool is_linear_identity(const IndexMap& map, std::int64_t count) {
    if (map.offset != 0 || map.masked() || volume(map.shape()) != count) return false;
    if (count == 1) return true;
    const auto flat = reshaped(map, {count});
    return flat && flat->dims[0] == std::vector<Atom>{atom(count, 1)};
}

}  // namespace stretto
