#include "simplify/strip_graph.h"

#include "simplify/strip_expr.h"

namespace stretto {
namespace {

/// So that a strip is computed while the one before it is read.
constexpr std::size_t kBuffers = 2;

}  // namespace

StripGraph::StripGraph(const Graph& from, const StripUses& uses, std::int64_t width)
    : from_(from), uses_(uses), product_(from[uses.product]), width_(width), renamed_(from.nodes.size()) {}

ValueId StripGraph::add(Node node) {
    to_.nodes.push_back(std::move(node));
    return ValueId(static_cast<std::int64_t>(to_.nodes.size()) - 1);
}

ValueId StripGraph::add(Expr expr, Type type) {
    const std::int32_t result = expr.cast(expr.root(), type.dtype);
    return add({std::move(type), Pointwise{extracted(expr, result)}, product_.source});
}

std::int32_t StripGraph::load(Expr& expr, ValueId value) const {
    return load_whole(expr, value, to_[value].type);
}

void StripGraph::begin(Range strip, bool stores) {
    strip_ = strip;
    const ValueId product = add_product();
    const Strip results{product, to_[product].type.shape};
    wide_ = {{uses_.product, stores ? in_buffer(uses_.product, product) : results}};
}

ValueId StripGraph::add_product() {
    Node node = product_;
    auto& op = std::get<Contract>(node.op);
    op.space[2] = strip_.size();
    node.type.shape.back() = strip_.size();
    for (Access* access : {&op.a, &op.b}) {
        access->source = renamed(ValueId(access->source)).value;
        access->map = cut(access->map, 2, strip_);
    }
    return add(std::move(node));
}

StripGraph::Strip StripGraph::in_buffer(ValueId value, ValueId made) {
    const Type type = to_[made].type;
    const std::size_t dim = uses_.values[value.index()].dim;
    Shape shape = type.shape;
    shape[dim] = width_;
    std::deque<ValueId>& buffers = buffers_[{type.dtype, volume(shape)}];
    if (buffers.size() < kBuffers) {
        if (type.shape == shape) buffers.push_back(made);
        return {made, type.shape};
    }
    const ValueId state = buffers.front();
    Update update{state, type.shape, {state.value, type.dtype, {}, {}}, {}, {}};
    update.target.map = cut(identity_map(shape), dim, {0, strip_.size()});
    load(update.expr, made);
    buffers.pop_front();
    buffers.push_back(add({to_[state].type, std::move(update), product_.source}));
    return {buffers.back(), shape};
}

StripGraph::Strip StripGraph::stored(ValueId value) {
    const auto known = wide_.find(value);
    if (known != wide_.end()) return known->second;
    const Node& node = from_[value];
    const StripValue& wide = uses_.values[value.index()];
    Type type = node.type;
    type.shape[wide.dim] = strip_.size();
    const ValueId made = add({type, Pointwise{of_strip(wide.expr, wide.dim)}, node.source});
    return wide_[value] = in_buffer(value, made);
}

Access StripGraph::in_strip(Access access, std::size_t dim) {
    const ValueId value(access.source);
    const Strip strip = stored(value);
    const StripOf part{from_[value].type.shape, uses_.values[value.index()].dim, strip_};
    access.map = map_of_strip(cut(access.map, dim, strip_), part, strip.shape);
    access.source = strip.value.value;
    return access;
}

Expr StripGraph::of_strip(const Expr& expr, std::size_t dim) {
    Expr out;
    std::vector<std::int32_t> done;
    for (ExprNode node : expr.nodes) {
        for (std::int32_t& arg : node.args) arg = done[static_cast<std::size_t>(arg)];
        if (node.op == Op::Index && node.integer == static_cast<std::int64_t>(dim)) {
            const auto begin = out.constant(static_cast<double>(strip_.begin), DType::I64);
            done.push_back(out.apply(Op::Add, {out.index(static_cast<int>(dim)), begin}));
            continue;
        }
        if (node.op == Op::Load) {
            Access access = expr.accesses[static_cast<std::size_t>(node.integer)];
            if (access.source == uses_.product.value) {
                access = in_strip(std::move(access), dim);
            } else {
                access.source = renamed(ValueId(access.source)).value;
                access.map = cut(access.map, dim, strip_);
            }
            node.integer = out.add_access(std::move(access));
        }
        done.push_back(out.add(std::move(node)));
    }
    return folded(extracted(out, done.back()));
}

Graph StripGraph::take() {
    copy_outputs_and_constants(
        from_, [&](ValueId id) { return renamed(id); }, to_);
    return std::move(to_);
}

}  // namespace stretto
