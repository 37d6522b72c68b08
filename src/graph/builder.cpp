#include "graph/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/promote.h"

namespace stretto {
namespace {

Access access_of(const Graph& graph, const Tensor& x) {
    return {x.value.value, graph[x.value].type.dtype, x.map, {}};
}

bool is_whole(const Graph& graph, const Tensor& x) {
    const Shape& shape = graph[x.value].type.shape;
    return x.shape() == shape && normalized(x.map) == normalized(identity_map(shape));
}

/// Can the last operation of an expression take the result's type, in place of a cast after it?
bool rounds_itself(const ExprNode& last, DType result) {
    const bool arithmetic =
        last.op >= Op::Neg && last.op <= Op::Mod && last.op != Op::Not && last.op != Op::Bits;
    return (arithmetic || last.op == Op::Select) && is_narrow_float(result) && last.type == DType::F32;
}

/// Is the node's value empty, or each of its elements a sum of nothing?
bool is_of_nothing(const Node& node) {
    const std::int64_t count = volume(node.type.shape);
    if (const auto* reduce = std::get_if<Reduce>(&node.op)) return count * volume(reduce->extents) == 0;
    if (const auto* product = std::get_if<Contract>(&node.op)) return count * product->space[3] == 0;
    if (const auto* attention = std::get_if<Attention>(&node.op)) return count * attention->space[3] == 0;
    return count == 0 && std::holds_alternative<Pointwise>(node.op);
}

Pointwise filled(double value, DType dtype) {
    Pointwise node;
    node.expr.constant(value, dtype);
    return node;
}

}  // namespace

void GraphBuilder::fail(std::string_view what) const {
    std::string message(what);
    if (!source_.op.empty()) message += fmt::format("\n  in {}", source_.op);
    if (!source_.module.empty()) message += fmt::format(" at {}", source_.module);
    throw UserError(message);
}

Tensor GraphBuilder::add(Node node) {
    // So that nobody reads what has no elements: index maps and tiles divide by extents.
    if (is_of_nothing(node)) node.op = filled(0, node.type.dtype);
    const auto* update = std::get_if<Update>(&node.op);
    const bool changes_nothing = update != nullptr && volume(update->space) == 0;
    for (const ValueId operand : operands(node)) {
        const Shape& shape = graph_[operand].type.shape;
        if (volume(shape) > 0 || changes_nothing) continue;
        fail(fmt::format("a tensor of shape {} has no elements to read or change", to_text(shape)));
    }
    node.source = source_;
    graph_.nodes.push_back(std::move(node));
    const Type& type = graph_.nodes.back().type;
    return {ValueId(static_cast<std::int64_t>(graph_.nodes.size()) - 1), identity_map(type.shape),
            type.dtype};
}

Access GraphBuilder::access(const Tensor& x) const { return access_of(graph_, x); }

Tensor GraphBuilder::input(Role role, std::string name, DType dtype, Shape shape) {
    return add({{dtype, std::move(shape)}, Input{role, std::move(name)}, {}});
}

Tensor GraphBuilder::constant(std::string name, DType dtype, Shape shape, std::vector<std::byte> bytes) {
    const std::size_t wanted = static_cast<std::size_t>(volume(shape)) * size_of(dtype);
    if (bytes.size() != wanted) {
        fail(fmt::format("constant {} has {} bytes; its type needs {}", name, bytes.size(), wanted));
    }
    const Tensor result = input(Role::Constant, std::move(name), dtype, std::move(shape));
    graph_.constants.emplace_back(result.value,
                                  std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    return result;
}

Tensor GraphBuilder::full(Shape shape, double value, DType dtype) {
    return add({{dtype, std::move(shape)}, filled(value, dtype), {}});
}

Tensor GraphBuilder::arange(std::int64_t count, double start, double step, DType dtype) {
    const DType compute = is_float(dtype) ? DType::F64 : DType::I64;
    Expr expr;
    const auto at = apply_typed(expr, Op::Mul, compute, {expr.index(0), expr.constant(step, compute)});
    const auto value = expr.apply(Op::Add, compute, {at, expr.constant(start, compute)});
    if (compute != dtype) expr.cast(value, dtype);
    return add({{dtype, {count}}, Pointwise{std::move(expr)}, {}});
}

Shape GraphBuilder::common_shape(const std::vector<Tensor>& operands) const {
    Shape common;
    for (const Tensor& x : operands) {
        const Shape shape = x.shape();
        if (shape.size() > common.size()) common.insert(common.begin(), shape.size() - common.size(), 1);
        const std::size_t lead = common.size() - shape.size();
        for (std::size_t d = 0; d < shape.size(); ++d) {
            std::int64_t& extent = common[lead + d];
            if (extent == 1) extent = shape[d];
            if (shape[d] != 1 && shape[d] != extent) {
                fail(fmt::format("shapes do not broadcast: {} against {}", to_text(shape), to_text(common)));
            }
        }
    }
    return common;
}

Tensor GraphBuilder::broadcast(const Tensor& x, const Shape& shape) const {
    Tensor result = x;
    if (x.rank() > shape.size()) {
        fail(fmt::format("shape {} does not broadcast to {}", to_text(x.shape()), to_text(shape)));
    }
    while (result.rank() < shape.size()) result.map = inserted_dim(result.map, 0, 1);
    const Shape have = result.shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (have[d] == shape[d]) continue;
        if (have[d] != 1) {
            fail(fmt::format("shape {} does not broadcast to {}", to_text(x.shape()), to_text(shape)));
        }
        result.map = inserted_dim(removed_dim(result.map, d), d, shape[d]);
    }
    return result;
}

Tensor GraphBuilder::pointwise(const std::vector<Tensor>& operands, DType result, const Body& body) {
    const Shape shape = common_shape(operands);
    Expr expr;
    std::vector<std::int32_t> nodes;
    for (const Tensor& x : operands) nodes.push_back(expr.load(access(broadcast(x, shape))));
    std::int32_t value = body(expr, nodes);
    if (value == expr.root() && rounds_itself(expr.nodes.back(), result)) expr.nodes.back().type = result;
    value = expr.cast(value, result);
    return add({{result, shape}, Pointwise{extracted(expr, value)}, {}});
}

Tensor GraphBuilder::apply(Op op, const std::vector<Tensor>& operands, DType result) {
    return pointwise(operands, result, [&](Expr& expr, const std::vector<std::int32_t>& nodes) {
        return apply_typed(expr, op, result, nodes);
    });
}

Tensor GraphBuilder::cast(const Tensor& x, DType dtype) {
    if (x.dtype == dtype) return x;
    return pointwise({x}, dtype, [&](Expr& expr, const auto& nodes) { return expr.cast(nodes[0], dtype); });
}

Tensor GraphBuilder::copied(const Tensor& x) {
    Expr expr;
    expr.load(access(x));
    return add({{x.dtype, x.shape()}, Pointwise{std::move(expr)}, {}});
}

Tensor GraphBuilder::contiguous(const Tensor& x) { return is_whole(graph_, x) ? x : copied(x); }

/// A whole value that is not an input, so that a result never shares memory with what the caller bound.
Tensor GraphBuilder::result_value(const Tensor& x, DType dtype) {
    const Tensor result = contiguous(cast(x, dtype));
    return std::holds_alternative<Input>(graph_[result.value].op) ? copied(result) : result;
}

void GraphBuilder::output(const Tensor& x, std::string name) {
    graph_.outputs.push_back({result_value(x, x.dtype).value, std::move(name), {}});
}

void GraphBuilder::update_state(const Tensor& state, const Tensor& next, std::string name) {
    const Node& input = graph_[state.value];
    if (!std::holds_alternative<Input>(input.op) || std::get<Input>(input.op).role != Role::State) {
        fail(fmt::format("{} is not a state input", name));
    }
    if (next.shape() != input.type.shape) {
        fail(fmt::format("the next value of state {} has shape {}, the state has {}", name,
                         to_text(next.shape()), to_text(input.type.shape)));
    }
    if (next.value == state.value && is_whole(graph_, next)) return;
    const DType dtype = input.type.dtype;
    graph_.outputs.push_back({result_value(next, dtype).value, std::move(name), state.value});
}

Graph GraphBuilder::finish() {
    check(graph_);
    return std::move(graph_);
}

}  // namespace stretto
