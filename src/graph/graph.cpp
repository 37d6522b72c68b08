#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stretto {
namespace {

void collect(const Access& access, std::vector<ValueId>& out) {
    const ValueId id(access.source);
    if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
}

void collect(const Expr& expr, std::vector<ValueId>& out) {
    for (const Access& access : expr.accesses) collect(access, out);
}

void collect(const std::optional<Ragged>& ragged, std::vector<ValueId>& out) {
    if (!ragged) return;
    collect(ragged->begin, out);
    collect(ragged->end, out);
}

struct Collector {
    std::vector<ValueId>& out;

    void operator()(const Input&) const {}
    void operator()(const Pointwise& op) const { collect(op.expr, out); }
    void operator()(const Reduce& op) const {
        collect(op.term, out);
        collect(op.ragged, out);
    }
    void operator()(const Contract& op) const {
        collect(op.a, out);
        collect(op.b, out);
        collect(op.ragged, out);
    }
    void operator()(const Attention& op) const {
        collect(op.query, out);
        collect(op.key, out);
        collect(op.value, out);
        collect(op.mask, out);
        collect(op.fresh.row, out);
        collect(op.fresh.key, out);
        collect(op.fresh.value, out);
    }
    void operator()(const Update& op) const {
        collect(op.target, out);
        collect(op.expr, out);
    }
};

struct Renamer {
    const std::function<ValueId(ValueId)>& renamed;

    void rename(Access& access) const { access.source = renamed(ValueId(access.source)).value; }
    void rename(Expr& expr) const {
        for (Access& access : expr.accesses) rename(access);
    }

    void rename(std::optional<Ragged>& ragged) const {
        if (!ragged) return;
        rename(ragged->begin);
        rename(ragged->end);
    }

    void operator()(Input&) const {}
    void operator()(Pointwise& op) const { rename(op.expr); }
    void operator()(Reduce& op) const {
        rename(op.term);
        rename(op.ragged);
    }
    void operator()(Contract& op) const {
        rename(op.a);
        rename(op.b);
        rename(op.ragged);
    }
    void operator()(Attention& op) const {
        rename(op.query);
        rename(op.key);
        rename(op.value);
        rename(op.mask);
        rename(op.fresh.row);
        rename(op.fresh.key);
        rename(op.fresh.value);
    }
    void operator()(Update& op) const {
        rename(op.target);
        rename(op.expr);
        op.state = ValueId(op.target.source);
    }
};

/// Checks one node; `require` names it.
class Checker {
public:
    Checker(const Graph& graph, std::size_t number)
        : graph_(graph), number_(number), node_(graph.nodes[number]) {}

    void run() const {
        for (std::int64_t extent : node_.type.shape) require(extent >= 0, "has a negative extent");
        std::visit(*this, node_.op);
    }

    void operator()(const Input&) const {}
    void operator()(const Pointwise& op) const {
        expression(op.expr, node_.type.shape);
        require(op.expr.type() == node_.type.dtype, "yields another type than its value has");
    }
    void operator()(const Reduce& op) const {
        Shape space = node_.type.shape;
        space.insert(space.end(), op.extents.begin(), op.extents.end());
        expression(op.term, space);
        bounds(op.ragged, node_.type.shape);
    }
    void operator()(const Contract& op) const {
        const Shape space(op.space.begin(), op.space.end());
        access(op.a, space);
        access(op.b, space);
        require(op.a.indirect.empty() && op.b.indirect.empty(), "contracts an indirect access");
        require(volume(node_.type.shape) == space[0] * space[1] * space[2], "has the wrong result size");
        bounds(op.ragged, space);
    }
    void operator()(const Attention& op) const {
        const auto& s = op.space;
        access(op.query, {s[0], s[1], s[2], s[4]});
        access(op.key, {s[0], s[1], s[3], s[4]});
        access(op.value, {s[0], s[1], s[3], s[4]});
        if (!op.mask.empty()) expression(op.mask, {s[0], s[1], s[2], s[3]});
        for (const Expr* expr : {&op.fresh.row, &op.fresh.key, &op.fresh.value}) {
            if (!expr->empty()) expression(*expr, {s[0], s[1], s[3], s[4]});
        }
        const std::int64_t rows = s[0] * s[1] * s[2];
        const std::int64_t expected = op.splits > 1 ? op.splits * rows * (s[4] + 2) : rows * s[4];
        require(volume(node_.type.shape) == expected, "has the wrong result size");
    }
    void operator()(const Update& op) const {
        require(op.state.valid() && op.state.index() < number_, "updates a value that does not exist yet");
        require(graph_[op.state].type == node_.type, "has another type than the state it updates");
        require(op.target.source == op.state.value, "stores to another value than its state");
        access(op.target, op.space);
        expression(op.expr, op.space);
        require(op.indices.size() == op.target.indirect.size(),
                "has the wrong number of indirect coordinates");
        for (std::int32_t index : op.indices) {
            require(index >= 0 && index <= op.expr.root(), "names an index node that does not exist");
        }
    }

private:
    void bounds(const std::optional<Ragged>& ragged, const Shape& space) const {
        if (!ragged) return;
        for (const Access* bound : {&ragged->begin, &ragged->end}) {
            access(*bound, space);
            require(bound->indirect.empty() && bound->type == DType::I64,
                    "is ragged by other than plain I64 values");
        }
    }

    void require(bool holds, const char* what) const {
        if (!holds) {
            throw InternalError(
                fmt::format("value %{} ({}, {}) {}", number_, node_.source.module, node_.source.op, what));
        }
    }

    void access(const Access& a, const Shape& space) const {
        const ValueId id(a.source);
        require(id.valid() && id.index() < number_, "reads a value that does not exist yet");
        require(a.type == graph_[id].type.dtype, "reads a value with another type than it has");
        require(a.map.shape() == space, "reads with a map of another space than its own");
        std::int64_t low = a.map.offset;
        std::int64_t high = a.map.offset;
        for (const auto& digits : a.map.dims) {
            for (const Atom& digit : digits) {
                require(digit.lo >= 0 && digit.hi <= digit.extent, "has a mask outside its digit");
                if (digit.hi <= digit.lo) return;
                low += std::min(digit.lo * digit.stride, (digit.hi - 1) * digit.stride);
                high += std::max(digit.lo * digit.stride, (digit.hi - 1) * digit.stride);
            }
        }
        for (const auto& indirect : a.indirect) high += indirect.stride * (indirect.extent - 1);
        require(low >= 0 && high < std::max<std::int64_t>(volume(graph_[id].type.shape), 1),
                "reads outside its operand");
    }

    void expression(const Expr& expr, const Shape& space) const {
        require(!expr.empty(), "has no expression");
        for (const Access& a : expr.accesses) access(a, space);
        for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
            const ExprNode& n = expr.nodes[i];
            for (std::int32_t arg : n.args) {
                require(arg >= 0 && arg < static_cast<std::int32_t>(i), "has an expression out of order");
            }
            if (n.op == Op::Load) {
                require(n.integer >= 0 && n.integer < static_cast<std::int64_t>(expr.accesses.size()),
                        "loads through an access that does not exist");
                const Access& a = expr.accesses[static_cast<std::size_t>(n.integer)];
                require(n.args.size() == a.indirect.size(), "loads with the wrong number of coordinates");
            } else {
                require(static_cast<int>(n.args.size()) == info(n.op).arity,
                        "has an operation of the wrong arity");
            }
            if (n.op == Op::Index) {
                require(n.integer >= 0 && n.integer < static_cast<std::int64_t>(space.size()),
                        "uses a coordinate that its space does not have");
            }
            require(n.op != Op::Acc && n.op != Op::Stat, "uses an accumulator outside a region");
        }
    }

    const Graph& graph_;
    std::size_t number_;
    const Node& node_;
};

}  // namespace

bool same_bytes(const std::shared_ptr<const std::vector<std::byte>>& a,
                const std::shared_ptr<const std::vector<std::byte>>& b) {
    return a == b || (a != nullptr && b != nullptr && *a == *b);
}

bool Graph::operator==(const Graph& other) const {
    const auto same_constant = [](const auto& a, const auto& b) {
        return a.first == b.first && same_bytes(a.second, b.second);
    };
    return nodes == other.nodes && outputs == other.outputs &&
           std::equal(constants.begin(), constants.end(), other.constants.begin(), other.constants.end(),
                      same_constant);
}

const std::vector<std::byte>* Graph::constant(ValueId id) const {
    for (const auto& [value, bytes] : constants) {
        if (value == id) return bytes.get();
    }
    return nullptr;
}

std::vector<ValueId> operands(const Node& node) {
    std::vector<ValueId> out;
    std::visit(Collector{out}, node.op);
    return out;
}

void rename_operands(Node& node, const std::function<ValueId(ValueId)>& renamed) {
    std::visit(Renamer{renamed}, node.op);
}

void copy_outputs_and_constants(const Graph& from, const std::function<ValueId(ValueId)>& renamed,
                                Graph& to) {
    for (Output output : from.outputs) {
        output.value = renamed(output.value);
        if (output.state_input.valid()) output.state_input = renamed(output.state_input);
        to.outputs.push_back(std::move(output));
    }
    for (const auto& [value, bytes] : from.constants) {
        if (const ValueId kept = renamed(value); kept.valid()) to.constants.emplace_back(kept, bytes);
    }
}

void check(const Graph& graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) Checker(graph, i).run();
    for (const Output& output : graph.outputs) {
        ensure(output.value.valid() && output.value.index() < graph.nodes.size(), "an output names no value");
        if (!output.state_input.valid()) continue;
        ensure(output.state_input.index() < graph.nodes.size(), "a state update names no input");
        const auto* input = std::get_if<Input>(&graph[output.state_input].op);
        ensure(input != nullptr && input->role == Role::State, "only State inputs can be updated");
        ensure(graph[output.state_input].type == graph[output.value].type,
               "a state update changes the state's type");
    }
}

}  // namespace stretto
