#include "support/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/rounding.h"

namespace stretto {
namespace {

using Coordinate = std::vector<std::int64_t>;

/// Calls `body` with every coordinate of `shape`, in row-major order.
template <class Body>
void for_each(const Shape& shape, Body&& body) {
    Coordinate at(shape.size(), 0);
    const std::int64_t count = volume(shape);
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i;
        for (std::size_t d = shape.size(); d-- > 0;) {
            at[d] = rest % shape[d];
            rest /= shape[d];
        }
        body(at, static_cast<std::size_t>(i));
    }
}

/// Remainder with the sign of the divisor, exact.
double python_mod(double a, double b) {
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

class Oracle {
public:
    Oracle(const Graph& graph, const std::map<std::string, Elements>& inputs)
        : graph_(graph), inputs_(inputs), values_(graph.nodes.size()) {}

    std::vector<Elements> run() {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            current_ = ValueId(static_cast<std::int64_t>(i));
            const Node& node = graph_.nodes[i];
            values_[i].assign(static_cast<std::size_t>(volume(node.type.shape)),
                              std::numeric_limits<double>::quiet_NaN());
            std::visit(*this, node.op);
            for (double& x : values_[i]) x = rounded(x, node.type.dtype);
        }
        return std::move(values_);
    }

    void operator()(const Input& op) {
        const Type& type = graph_[current_].type;
        if (const auto* bytes = graph_.constant(current_)) {
            result() = from_bytes(bytes->data(), volume(type.shape), type.dtype);
            return;
        }
        const auto found = inputs_.find(op.name);
        if (found == inputs_.end()) throw InternalError("no elements for input " + op.name);
        ensure(found->second.size() == result().size(), "an input has the wrong number of elements");
        result() = found->second;
    }

    void operator()(const Pointwise& op) {
        for_each(graph_[current_].type.shape,
                 [&](const Coordinate& at, std::size_t i) { result()[i] = value_of(op.expr, at); });
    }

    void operator()(const Reduce& op) {
        for_each(graph_[current_].type.shape, [&](const Coordinate& kept, std::size_t i) {
            double total = op.op == ReduceOp::Sum   ? 0
                           : op.op == ReduceOp::Max ? -std::numeric_limits<double>::infinity()
                                                    : std::numeric_limits<double>::infinity();
            for_each(op.extents, [&](const Coordinate& reduced, std::size_t) {
                Coordinate at = kept;
                at.insert(at.end(), reduced.begin(), reduced.end());
                const auto j = static_cast<double>(reduced.empty() ? 0 : reduced.front());
                const bool counts = !op.ragged || (element(op.ragged->begin, kept, {}) <= j &&
                                                   j < element(op.ragged->end, kept, {}));
                if (!counts) return;
                const double x = value_of(op.term, at);
                if (op.op == ReduceOp::Sum) total += x;
                if (op.op == ReduceOp::Max) total = std::max(total, x);
                if (op.op == ReduceOp::Min) total = std::min(total, x);
            });
            result()[i] = total;
        });
    }

    void operator()(const Contract& op) {
        const auto [batch, m, n, k] = op.space;
        for_each({batch, m, n}, [&](const Coordinate& at, std::size_t i) {
            double total = 0;
            for (std::int64_t j = 0; j < k; ++j) {
                const Coordinate full = {at[0], at[1], at[2], j};
                const bool counts =
                    !op.ragged || (element(op.ragged->begin, full, {}) <= static_cast<double>(j) &&
                                   static_cast<double>(j) < element(op.ragged->end, full, {}));
                if (!counts) continue;
                total += element(op.a, full, {}) * element(op.b, full, {});
            }
            result()[i] = total;
        });
    }

    void operator()(const Attention& op) {
        const auto [batch, heads, queries, rows, depth] = op.space;
        for_each({batch, heads, queries}, [&](const Coordinate& at, std::size_t i) {
            std::vector<double> weights;
            for (std::int64_t s = 0; s < rows; ++s) weights.push_back(score(op, at, s));
            const double top = *std::max_element(weights.begin(), weights.end());
            double total = 0;
            for (double& w : weights) total += w = std::isinf(top) ? 0 : std::exp(w - top);
            for (std::int64_t d = 0; d < depth; ++d) {
                double sum = 0;
                for (std::int64_t s = 0; s < rows; ++s) {
                    sum += weights[static_cast<std::size_t>(s)] * element(op.value, {at[0], at[1], s, d}, {});
                }
                result()[i * static_cast<std::size_t>(depth) + static_cast<std::size_t>(d)] =
                    total == 0 ? 0 : sum / total;
            }
        });
    }

    void operator()(const Update& op) {
        result() = values_[op.state.index()];
        for_each(op.space, [&](const Coordinate& at, std::size_t) {
            const Elements nodes = nodes_of(op.expr, at);
            std::vector<double> indirect;
            for (const std::int32_t node : op.indices)
                indirect.push_back(nodes[static_cast<std::size_t>(node)]);
            if (const auto offset = address(op.target, at, indirect)) {
                result()[static_cast<std::size_t>(*offset)] = nodes.back();
            }
        });
    }

private:
    Elements& result() { return values_[current_.index()]; }

    double score(const Attention& op, const Coordinate& at, std::int64_t s) const {
        double dot = 0;
        for (std::int64_t d = 0; d < op.space[4]; ++d) {
            dot +=
                element(op.query, {at[0], at[1], at[2], d}, {}) * element(op.key, {at[0], at[1], s, d}, {});
        }
        dot *= op.scale;
        if (op.mask.empty()) return dot;
        const double mask = value_of(op.mask, {at[0], at[1], at[2], s});
        if (op.mask.type() != DType::Bool) return dot + mask;
        return mask != 0 ? dot : -std::numeric_limits<double>::infinity();
    }

    static std::optional<std::int64_t> address(const Access& access, const Coordinate& at,
                                               const std::vector<double>& indirect) {
        auto offset = offset_of(access.map, at);
        for (std::size_t i = 0; offset && i < indirect.size(); ++i) {
            const auto& axis = access.indirect[i];
            auto c = static_cast<std::int64_t>(indirect[i]);
            if (c < 0) c += axis.extent;
            *offset += std::clamp<std::int64_t>(c, 0, axis.extent - 1) * axis.stride;
        }
        return offset;
    }

    double element(const Access& access, const Coordinate& at, const std::vector<double>& indirect) const {
        const auto offset = address(access, at, indirect);
        return offset ? values_[static_cast<std::size_t>(access.source)].at(static_cast<std::size_t>(*offset))
                      : 0;
    }

    Elements nodes_of(const Expr& expr, const Coordinate& at) const {
        Elements done;
        for (const ExprNode& node : expr.nodes) {
            std::vector<double> args;
            for (const std::int32_t arg : node.args) args.push_back(done[static_cast<std::size_t>(arg)]);
            double x = 0;
            if (node.op == Op::Const) {
                x = is_float(node.type) ? node.value : static_cast<double>(node.integer);
            } else if (node.op == Op::Index) {
                x = static_cast<double>(at.at(static_cast<std::size_t>(node.integer)));
            } else if (node.op == Op::Load) {
                x = element(expr.accesses.at(static_cast<std::size_t>(node.integer)), at, args);
            } else {
                x = apply_op(node.op, args);
            }
            done.push_back(rounded(x, node.type));
        }
        return done;
    }

    double value_of(const Expr& expr, const Coordinate& at) const { return nodes_of(expr, at).back(); }

    const Graph& graph_;
    const std::map<std::string, Elements>& inputs_;
    std::vector<Elements> values_;
    ValueId current_;
};

template <class T, class Convert>
void read_all(const std::byte* bytes, Elements& out, Convert&& convert) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        T x;
        std::memcpy(&x, bytes + i * sizeof(T), sizeof(T));
        out[i] = static_cast<double>(convert(x));
    }
}

template <class T, class Convert>
void write_all(const Elements& elements, std::vector<std::byte>& out, Convert&& convert) {
    out.resize(elements.size() * sizeof(T));
    for (std::size_t i = 0; i < elements.size(); ++i) {
        const T x = convert(elements[i]);
        std::memcpy(out.data() + i * sizeof(T), &x, sizeof(T));
    }
}

std::int64_t integer(double x) { return static_cast<std::int64_t>(x); }

}  // namespace

double apply_op(Op op, const std::vector<double>& x) {
    switch (op) {
        case Op::Neg:
            return -x[0];
        case Op::Abs:
            return std::abs(x[0]);
        case Op::Exp:
            return std::exp(x[0]);
        case Op::Log:
            return std::log(x[0]);
        case Op::Sqrt:
            return std::sqrt(x[0]);
        case Op::Rsqrt:
            return 1 / std::sqrt(x[0]);
        case Op::Recip:
            return 1 / x[0];
        case Op::Sin:
            return std::sin(x[0]);
        case Op::Cos:
            return std::cos(x[0]);
        case Op::Tanh:
            return std::tanh(x[0]);
        case Op::Erf:
            return std::erf(x[0]);
        case Op::Sigmoid:
            return 1 / (1 + std::exp(-x[0]));
        case Op::Floor:
            return std::floor(x[0]);
        case Op::Ceil:
            return std::ceil(x[0]);
        case Op::Bits:
            return std::bit_cast<std::int32_t>(static_cast<float>(x[0]));
        case Op::Not:
            return x[0] == 0;
        case Op::Add:
            return x[0] + x[1];
        case Op::Sub:
            return x[0] - x[1];
        case Op::Mul:
            return x[0] * x[1];
        case Op::Div:
            return x[0] / x[1];
        case Op::Pow:
            return std::pow(x[0], x[1]);
        case Op::Min:
            return x[0] < x[1] || std::isnan(x[0]) ? x[0] : x[1];
        case Op::Max:
            return x[0] > x[1] || std::isnan(x[0]) ? x[0] : x[1];
        case Op::FloorDiv:
            return std::floor(x[0] / x[1]);
        case Op::Mod:
            return python_mod(x[0], x[1]);
        case Op::BitAnd:
            return static_cast<double>(integer(x[0]) & integer(x[1]));
        case Op::BitOr:
            return static_cast<double>(integer(x[0]) | integer(x[1]));
        case Op::BitXor:
            return static_cast<double>(integer(x[0]) ^ integer(x[1]));
        case Op::ShiftLeft:
            return std::ldexp(x[0], static_cast<int>(x[1]));
        case Op::ShiftRight:
            return std::floor(std::ldexp(x[0], -static_cast<int>(x[1])));
        case Op::Lt:
            return x[0] < x[1];
        case Op::Le:
            return x[0] <= x[1];
        case Op::Eq:
            return x[0] == x[1];
        case Op::Ne:
            return x[0] != x[1];
        case Op::And:
            return x[0] != 0 && x[1] != 0;
        case Op::Or:
            return x[0] != 0 || x[1] != 0;
        case Op::Select:
            return x[0] != 0 ? x[1] : x[2];
        case Op::Cast:
            return x[0];
        default:
            throw InternalError("not an arithmetic operation");
    }
}

std::vector<Elements> evaluate(const Graph& graph, const std::map<std::string, Elements>& inputs) {
    return Oracle(graph, inputs).run();
}

Elements from_bytes(const std::byte* bytes, std::int64_t count, DType type) {
    Elements out(static_cast<std::size_t>(count));
    const auto same = [](auto x) { return x; };
    switch (type) {
        case DType::Bool:
        case DType::U8:
            read_all<std::uint8_t>(bytes, out, same);
            break;
        case DType::I32:
            read_all<std::int32_t>(bytes, out, same);
            break;
        case DType::I64:
            read_all<std::int64_t>(bytes, out, same);
            break;
        case DType::F16:
            read_all<std::uint16_t>(bytes, out, f16_to_f32);
            break;
        case DType::BF16:
            read_all<std::uint16_t>(bytes, out, bf16_to_f32);
            break;
        case DType::F32:
            read_all<float>(bytes, out, same);
            break;
        case DType::F64:
            read_all<double>(bytes, out, same);
            break;
    }
    return out;
}

std::vector<std::byte> to_bytes(const Elements& elements, DType type) {
    std::vector<std::byte> out;
    const auto to_f32 = [](double x) { return static_cast<float>(x); };
    switch (type) {
        case DType::Bool:
        case DType::U8:
            write_all<std::uint8_t>(elements, out, [](double x) { return static_cast<std::uint8_t>(x); });
            break;
        case DType::I32:
            write_all<std::int32_t>(elements, out, [](double x) { return static_cast<std::int32_t>(x); });
            break;
        case DType::I64:
            write_all<std::int64_t>(elements, out, [](double x) { return static_cast<std::int64_t>(x); });
            break;
        case DType::F16:
            write_all<std::uint16_t>(elements, out, [&](double x) { return f32_to_f16(to_f32(x)); });
            break;
        case DType::BF16:
            write_all<std::uint16_t>(elements, out, [&](double x) { return f32_to_bf16(to_f32(x)); });
            break;
        case DType::F32:
            write_all<float>(elements, out, to_f32);
            break;
        case DType::F64:
            write_all<double>(elements, out, [](double x) { return x; });
            break;
    }
    return out;
}

double relative_distance(const Elements& got, const Elements& wanted, double least) {
    double difference = 0;
    double size = least;
    for (std::size_t i = 0; i < got.size(); ++i) {
        difference += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    return std::sqrt(difference / size);
}

}  // namespace stretto
