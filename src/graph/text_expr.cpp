#include "graph/text_expr.h"

#include <limits>
#include <unordered_map>

namespace stretto {
namespace {

void write(Writer& out, const Atom& digit) {
    out.put(digit.extent, ':', digit.stride);
    if (digit.lo != 0 || digit.hi != digit.extent) out.put('{', Range{digit.lo, digit.hi}, '}');
}

Atom read_digit(Reader& in) {
    Atom digit;
    digit.extent = in.integer();
    in.expect(":");
    digit.stride = in.integer();
    digit.hi = digit.extent;
    if (in.accept("{")) {
        const Range kept = in.range();
        digit.lo = kept.begin;
        digit.hi = kept.end;
        in.expect("}");
    }
    return digit;
}

std::vector<Atom> read_dim(Reader& in) {
    if (!in.accept("(")) return {read_digit(in)};
    std::vector<Atom> digits;
    if (in.accept(")")) return digits;
    do digits.push_back(read_digit(in));
    while (in.accept(","));
    in.expect(")");
    return digits;
}

const std::unordered_map<std::string_view, Op>& op_by_name() {
    static const auto table = [] {
        std::unordered_map<std::string_view, Op> ops;
        for (int op = 0; op <= static_cast<int>(Op::Cast); ++op) {
            ops.emplace(info(static_cast<Op>(op)).name, static_cast<Op>(op));
        }
        return ops;
    }();
    return table;
}

/// Does `integer` mean something in a node of this kind?
bool has_number(Op op) { return op == Op::Index || op == Op::Acc || op == Op::Stat; }

void write(Writer& out, const ExprNode& node) {
    out.put(info(node.op).name);
    if (node.op == Op::Load) out.put(' ', Label{'a', node.integer});
    if (has_number(node.op)) out.put(' ', node.integer);
    if (node.op == Op::Const && is_float(node.type)) out.put(' ', node.value);
    if (node.op == Op::Const && !is_float(node.type)) out.put(' ', node.integer);
    for (std::int32_t arg : node.args) out.put(' ', Label{'x', arg});
    out.put(" : ", name(node.type));
}

/// A label that must name one of the first `count` entries of its table.
std::int32_t read_earlier(Reader& in, char sigil, std::size_t count) {
    Reader before = in;
    const std::int32_t number = in.number_of_label(sigil);
    if (number < 0 || static_cast<std::size_t>(number) >= count) {
        before.fail(std::string("an earlier label such as ") + sigil + "0");
    }
    return number;
}

Op read_op(Reader& in) {
    Reader before = in;
    const auto op = op_by_name().find(in.word());
    if (op == op_by_name().end()) before.fail("an operation of expr.h");
    return op->second;
}

/// The number of a constant is kept as text until the type that follows says how to read it.
void read_constant(Reader& in, ExprNode& node) {
    Reader number = in;
    (void)in.number();
    in.expect(":");
    node.type = read_dtype(in);
    if (is_float(node.type)) {
        node.value = number.number();
    } else {
        node.integer = number.integer();
        number.expect(":");
    }
}

ExprNode read_node(Reader& in, const Expr& expr) {
    ExprNode node;
    node.op = read_op(in);
    if (node.op == Op::Const) {
        read_constant(in, node);
        return node;
    }
    if (node.op == Op::Load) node.integer = read_earlier(in, 'a', expr.accesses.size());
    if (has_number(node.op)) node.integer = in.integer(0, std::numeric_limits<std::int32_t>::max());
    const std::size_t arity = node.op == Op::Load
                                  ? expr.accesses[static_cast<std::size_t>(node.integer)].indirect.size()
                                  : static_cast<std::size_t>(info(node.op).arity);
    for (std::size_t i = 0; i < arity; ++i) node.args.push_back(read_earlier(in, 'x', expr.nodes.size()));
    in.expect(":");
    node.type = read_dtype(in);
    return node;
}

}  // namespace

void write(Writer& out, const IndexMap& map) {
    out.put('[');
    for (std::size_t d = 0; d < map.rank(); ++d) {
        if (d > 0) out.put(", ");
        const auto& digits = map.dims[d];
        if (digits.size() == 1) {
            write(out, digits.front());
            continue;
        }
        out.put('(');
        for (std::size_t i = 0; i < digits.size(); ++i) {
            if (i > 0) out.put(", ");
            write(out, digits[i]);
        }
        out.put(')');
    }
    out.put(']');
    if (map.offset != 0) out.put(" + ", map.offset);
}

IndexMap read_index_map(Reader& in) {
    IndexMap map;
    in.expect("[");
    if (!in.accept("]")) {
        do map.dims.push_back(read_dim(in));
        while (in.accept(","));
        in.expect("]");
    }
    if (in.accept("+")) map.offset = in.integer();
    return map;
}

void write(Writer& out, const Access& access, char sigil) {
    out.put(Label{sigil, access.source}, " : ", name(access.type), ' ');
    write(out, access.map);
    if (!access.indirect.empty()) out.put(" indirect");
    for (const Access::Indirect& indirect : access.indirect) {
        out.put(' ', indirect.extent, ':', indirect.stride);
    }
}

Access read_access(Reader& in, char sigil) {
    Access access;
    access.source = in.number_of_label(sigil);
    in.expect(":");
    access.type = read_dtype(in);
    access.map = read_index_map(in);
    if (!in.accept("indirect")) return access;
    do {
        Access::Indirect& indirect = access.indirect.emplace_back();
        indirect.extent = in.integer();
        in.expect(":");
        indirect.stride = in.integer();
    } while (in.next_is_integer());
    return access;
}

void write(Writer& out, const Expr& expr, char sigil) {
    out.open();
    for (std::size_t i = 0; i < expr.accesses.size(); ++i) {
        out.line('a', i, " = ");
        write(out, expr.accesses[i], sigil);
    }
    for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
        out.line('x', i, " = ");
        write(out, expr.nodes[i]);
    }
    out.close();
}

Expr read_expr(Reader& in, char sigil) {
    Expr expr;
    in.expect("{");
    while (in.next_is_label('a')) {
        in.expect_label('a', expr.accesses.size());
        in.expect("=");
        expr.accesses.push_back(read_access(in, sigil));
    }
    do {
        in.expect_label('x', expr.nodes.size());
        in.expect("=");
        expr.nodes.push_back(read_node(in, expr));
    } while (!in.accept("}"));
    return expr;
}

DType read_dtype(Reader& in) {
    Reader before = in;
    const std::string_view word = in.word();
    for (int type = 0; type <= static_cast<int>(DType::F64); ++type) {
        if (name(static_cast<DType>(type)) == word) return static_cast<DType>(type);
    }
    before.fail("an element type");
}

void write_target(Writer& out, const Access& target, const std::vector<std::int32_t>& indices,
                  const Expr& expr, char sigil) {
    write(out, target, sigil);
    if (!indices.empty()) out.put(" at");
    for (std::int32_t index : indices) out.put(' ', Label{'x', index});
    out.put(" =");
    write(out, expr, sigil);
}

void read_target(Reader& in, Access& target, std::vector<std::int32_t>& indices, Expr& expr, char sigil) {
    target = read_access(in, sigil);
    if (!target.indirect.empty()) in.expect("at");
    Reader labels = in;
    for (std::size_t i = 0; i < target.indirect.size(); ++i) (void)in.number_of_label('x');
    in.expect("=");
    expr = read_expr(in, sigil);
    for (std::size_t i = 0; i < target.indirect.size(); ++i) {
        indices.push_back(read_earlier(labels, 'x', expr.nodes.size()));
    }
}

std::string to_text(const IndexMap& map) {
    Writer out;
    write(out, map);
    return out.text();
}

std::string to_text(const Access& access, char sigil) {
    Writer out;
    write(out, access, sigil);
    return out.text();
}

std::string to_text(const Expr& expr, char sigil) {
    Writer out;
    write(out, expr, sigil);
    return out.text().substr(1);
}

IndexMap parse_index_map(std::string_view text) {
    Reader in(text, "index map");
    IndexMap map = read_index_map(in);
    in.expect_end();
    return map;
}

Expr parse_expr(std::string_view text, char sigil) {
    Reader in(text, "expression");
    Expr expr = read_expr(in, sigil);
    in.expect_end();
    return expr;
}

}  // namespace stretto
