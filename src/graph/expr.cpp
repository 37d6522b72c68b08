#include "graph/expr.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace stretto {
namespace {

constexpr std::array<OpInfo, 43> kOps{{
    {"const", 0},    {"index", 0}, {"load", -1},   {"acc", 0},   {"stat", 0},   {"neg", 1},  {"abs", 1},
    {"exp", 1},      {"log", 1},   {"sqrt", 1},    {"rsqrt", 1}, {"recip", 1},  {"sin", 1},  {"cos", 1},
    {"tanh", 1},     {"erf", 1},   {"sigmoid", 1}, {"floor", 1}, {"ceil", 1},   {"bits", 1}, {"not", 1},
    {"add", 2},      {"sub", 2},   {"mul", 2},     {"div", 2},   {"pow", 2},    {"min", 2},  {"max", 2},
    {"floordiv", 2}, {"mod", 2},   {"bitand", 2},  {"bitor", 2}, {"bitxor", 2}, {"shl", 2},  {"shr", 2},
    {"lt", 2},       {"le", 2},    {"eq", 2},      {"ne", 2},    {"and", 2},    {"or", 2},   {"select", 3},
    {"cast", 1},
}};

bool is_logical(Op op) { return op == Op::Not || (op >= Op::Lt && op <= Op::Or); }

/// Equal as bits, so that 0.0 and -0.0 stay apart and NaN equals itself.
bool same_node(const ExprNode& a, const ExprNode& b) {
    return a.op == b.op && a.type == b.type && a.integer == b.integer && a.args == b.args &&
           std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
}

}  // namespace

const OpInfo& info(Op op) { return kOps.at(static_cast<std::size_t>(op)); }

std::int32_t Expr::add(ExprNode node) {
    for (std::size_t i = nodes.size(); i-- > 0;) {
        if (same_node(nodes[i], node)) return static_cast<std::int32_t>(i);
    }
    for (std::int32_t arg : node.args) {
        ensure(arg >= 0 && arg < static_cast<std::int32_t>(nodes.size()),
               "an argument must exist before its user");
    }
    nodes.push_back(std::move(node));
    return root();
}

std::int32_t Expr::add_access(Access access) {
    const auto found = std::find(accesses.begin(), accesses.end(), access);
    if (found != accesses.end()) return static_cast<std::int32_t>(found - accesses.begin());
    accesses.push_back(std::move(access));
    return static_cast<std::int32_t>(accesses.size()) - 1;
}

std::int32_t Expr::constant(double value, DType type) {
    ExprNode node{Op::Const, type, {}, 0, 0};
    if (is_float(type)) {
        node.value = value;
    } else {
        node.integer = static_cast<std::int64_t>(value);
    }
    return add(std::move(node));
}

std::int32_t Expr::index(int dim) { return add({Op::Index, DType::I64, {}, dim, 0}); }

std::int32_t Expr::load(Access access, std::vector<std::int32_t> indirect) {
    ensure(access.indirect.size() == indirect.size(), "a load has one argument for each indirect coordinate");
    const DType type = access.type;
    const std::int32_t number = add_access(std::move(access));
    return add({Op::Load, type, std::move(indirect), number, 0});
}

std::int32_t Expr::acc(int number, DType type) { return add({Op::Acc, type, {}, number, 0}); }

std::int32_t Expr::stat(int number) { return add({Op::Stat, DType::F32, {}, number, 0}); }

std::int32_t Expr::apply(Op op, std::vector<std::int32_t> args) {
    ensure(!args.empty(), "apply needs arguments");
    const auto from = static_cast<std::size_t>(op == Op::Select ? args.at(1) : args.at(0));
    const DType type = is_logical(op) ? DType::Bool : nodes.at(from).type;
    return apply(op, type, std::move(args));
}

std::int32_t Expr::apply(Op op, DType type, std::vector<std::int32_t> args) {
    ensure(info(op).arity == static_cast<int>(args.size()), "wrong number of arguments for an operation");
    return add({op, type, std::move(args), 0, 0});
}

std::int32_t Expr::cast(std::int32_t arg, DType type) {
    if (nodes.at(static_cast<std::size_t>(arg)).type == type) return arg;
    return add({Op::Cast, type, {arg}, 0, 0});
}

namespace {

std::int32_t copy_node(Expr& to, const Expr& from, std::int32_t node, std::vector<std::int32_t>& done) {
    auto& result = done[static_cast<std::size_t>(node)];
    if (result >= 0) return result;
    ExprNode copy = from.nodes.at(static_cast<std::size_t>(node));
    for (std::int32_t& arg : copy.args) arg = copy_node(to, from, arg, done);
    if (copy.op == Op::Load)
        copy.integer = to.add_access(from.accesses.at(static_cast<std::size_t>(copy.integer)));
    return result = to.add(std::move(copy));
}

}  // namespace

std::int32_t copy_into(Expr& to, const Expr& from, std::int32_t node) {
    std::vector<std::int32_t> done(from.nodes.size(), -1);
    return copy_node(to, from, node, done);
}

Expr rewritten(const Expr& expr, const Replacement& replacement) {
    Expr out;
    std::vector<std::int32_t> done;
    for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
        ExprNode node = expr.nodes[i];
        for (std::int32_t& arg : node.args) arg = done[static_cast<std::size_t>(arg)];
        if (const auto other = replacement(out, i)) {
            done.push_back(*other);
            continue;
        }
        if (node.op == Op::Load) {
            node.integer = out.add_access(expr.accesses[static_cast<std::size_t>(node.integer)]);
        }
        done.push_back(out.add(std::move(node)));
    }
    return extracted(out, done.back());
}

Expr extracted(const Expr& expr, std::int32_t root) {
    Expr result;
    copy_into(result, expr, root);
    return result;
}

Expr widened(const Expr& expr) {
    Expr result = expr;
    for (ExprNode& node : result.nodes) {
        // A load keeps the type of its memory; only what is computed from it stays wide.
        if (node.op != Op::Load && is_narrow_float(node.type)) node.type = DType::F32;
    }
    return folded(result);
}

bool depends_on(const Expr& expr, std::int32_t node, std::size_t dim) {
    std::vector<char> known(expr.nodes.size(), 0);
    for (std::size_t i = 0; i <= static_cast<std::size_t>(node); ++i) {
        const ExprNode& n = expr.nodes[i];
        bool depends = n.op == Op::Index && n.integer == static_cast<std::int64_t>(dim);
        if (n.op == Op::Load) {
            const auto& dims = expr.accesses[static_cast<std::size_t>(n.integer)].map.dims;
            depends = dim < dims.size() && std::any_of(dims[dim].begin(), dims[dim].end(), [](const Atom& a) {
                          return (a.stride != 0 && a.extent > 1) || a.masked();
                      });
        }
        for (std::int32_t arg : n.args) depends = depends || known[static_cast<std::size_t>(arg)] != 0;
        known[i] = depends ? 1 : 0;
    }
    return known[static_cast<std::size_t>(node)] != 0;
}

}  // namespace stretto
