#include "graph/text.h"

namespace stretto {
namespace {

constexpr Names<Role, 4> kRoleNames{"a role", {"parameter", "state", "constant", "user"}};

// An operation is written in two parts around the type and the source: its head on the first line, and its body.

void write_head(Writer& out, const Input& op) {
    out.put("input ", kRoleNames[op.role], ' ', Quoted{op.name});
}
void write_head(Writer& out, const Pointwise&) { out.put("pointwise"); }
void write_head(Writer& out, const Reduce& op) { out.put("reduce ", kReduceNames[op.op], ' ', op.extents); }
void write_head(Writer& out, const Contract& op) { out.put("contract ", op.space); }
void write_head(Writer& out, const Attention& op) {
    out.put("attention ", op.space, " scale ", op.scale);
    if (op.splits != 0) out.put(" splits ", op.splits);
}
void write_head(Writer& out, const Update& op) { out.put("update ", label(op.state), ' ', op.space); }

void write_access_line(Writer& out, std::string_view role, const Access& access) {
    out.line(role, ' ');
    write(out, access, kValueSigil);
}

void write_body(Writer&, const Input&) {}
void write_body(Writer& out, const Pointwise& op) { write(out, op.expr, kValueSigil); }
void write_body(Writer& out, const Reduce& op) {
    write(out, op.ragged, kValueSigil);
    write(out, op.term, kValueSigil);
}
void write_body(Writer& out, const Contract& op) {
    out.open();
    write_access_line(out, "a", op.a);
    write_access_line(out, "b", op.b);
    write(out, op.ragged, kValueSigil);
    out.close();
}
void write_body(Writer& out, const Attention& op) {
    out.open();
    write_access_line(out, "query", op.query);
    write_access_line(out, "key", op.key);
    write_access_line(out, "value", op.value);
    if (!op.mask.empty()) {
        out.line("mask");
        write(out, op.mask, kValueSigil);
    }
    write(out, op.fresh, kValueSigil);
    out.close();
}
void write_body(Writer& out, const Update& op) {
    out.open();
    out.line("store ");
    write_target(out, op.target, op.indices, op.expr, kValueSigil);
    out.close();
}

void write(Writer& out, const Node& node) {
    std::visit([&](const auto& op) { write_head(out, op); }, node.op);
    out.put(" : ");
    write(out, node.type.dtype, node.type.shape);
    if (node.source != Source{}) {
        out.put(" from ", Quoted{node.source.module}, ' ', Quoted{node.source.op});
    }
    std::visit([&](const auto& op) { write_body(out, op); }, node.op);
}

Input read_input_head(Reader& in) {
    Input op;
    op.role = kRoleNames.read(in);
    op.name = in.quoted();
    return op;
}

Reduce read_reduce_head(Reader& in) {
    Reduce op;
    op.op = kReduceNames.read(in);
    op.extents = in.shape();
    return op;
}

Contract read_contract_head(Reader& in) {
    Contract op;
    op.space = in.extents<4>();
    return op;
}

Attention read_attention_head(Reader& in) {
    Attention op;
    op.space = in.extents<5>();
    in.expect("scale");
    op.scale = in.number();
    if (in.accept("splits")) op.splits = in.integer();
    return op;
}

Update read_update_head(Reader& in) {
    Update op;
    op.state = in.id<ValueId>();
    op.space = in.shape();
    return op;
}

decltype(Node::op) read_head(Reader& in) {
    if (in.accept("input")) return read_input_head(in);
    if (in.accept("pointwise")) return Pointwise{};
    if (in.accept("reduce")) return read_reduce_head(in);
    if (in.accept("contract")) return read_contract_head(in);
    if (in.accept("attention")) return read_attention_head(in);
    if (in.accept("update")) return read_update_head(in);
    in.fail("an operation: input, pointwise, reduce, contract, attention, update");
}

Access read_access_line(Reader& in, std::string_view role) {
    in.expect(role);
    return read_access(in, kValueSigil);
}

void read_body(Reader&, Input&) {}
void read_body(Reader& in, Pointwise& op) { op.expr = read_expr(in, kValueSigil); }
void read_body(Reader& in, Reduce& op) {
    op.ragged = read_ragged(in, kValueSigil);
    op.term = read_expr(in, kValueSigil);
}
void read_body(Reader& in, Contract& op) {
    in.expect("{");
    op.a = read_access_line(in, "a");
    op.b = read_access_line(in, "b");
    op.ragged = read_ragged(in, kValueSigil);
    in.expect("}");
}
void read_body(Reader& in, Attention& op) {
    in.expect("{");
    op.query = read_access_line(in, "query");
    op.key = read_access_line(in, "key");
    op.value = read_access_line(in, "value");
    if (in.accept("mask")) op.mask = read_expr(in, kValueSigil);
    op.fresh = read_fresh_row(in, kValueSigil);
    in.expect("}");
}
void read_body(Reader& in, Update& op) {
    in.expect("{");
    in.expect("store");
    read_target(in, op.target, op.indices, op.expr, kValueSigil);
    in.expect("}");
}

Node read_node(Reader& in) {
    Node node;
    node.op = read_head(in);
    in.expect(":");
    read_type(in, node.type.dtype, node.type.shape);
    if (in.accept("from")) {
        node.source.module = in.quoted();
        node.source.op = in.quoted();
    }
    std::visit([&](auto& op) { read_body(in, op); }, node.op);
    return node;
}

Output read_output(Reader& in) {
    Output output;
    output.value = in.id<ValueId>();
    output.name = in.quoted();
    if (in.accept("state")) output.state_input = in.id<ValueId>();
    return output;
}

}  // namespace

void write(Writer& out, DType dtype, const Shape& shape) { out.put(name(dtype), shape); }

void read_type(Reader& in, DType& dtype, Shape& shape) {
    dtype = read_dtype(in);
    shape = in.shape();
}

void write(Writer& out, const FreshRow& fresh, char sigil) {
    if (fresh.empty()) return;
    out.line("fresh");
    out.open();
    const auto part = [&](std::string_view name, const Expr& expr) {
        if (expr.empty()) return;
        out.line(name);
        write(out, expr, sigil);
    };
    part("row", fresh.row);
    part("key", fresh.key);
    part("value", fresh.value);
    out.close();
}

FreshRow read_fresh_row(Reader& in, char sigil) {
    FreshRow fresh;
    if (!in.accept("fresh")) return fresh;
    in.expect("{");
    in.expect("row");
    fresh.row = read_expr(in, sigil);
    if (in.accept("key")) fresh.key = read_expr(in, sigil);
    if (in.accept("value")) fresh.value = read_expr(in, sigil);
    in.expect("}");
    return fresh;
}

void write(Writer& out, const std::optional<Ragged>& ragged, char sigil) {
    if (!ragged) return;
    out.line("ragged begin ");
    write(out, ragged->begin, sigil);
    out.put(" end ");
    write(out, ragged->end, sigil);
    out.put(" expected ", ragged->expected);
}

std::optional<Ragged> read_ragged(Reader& in, char sigil) {
    if (!in.accept("ragged")) return std::nullopt;
    Ragged ragged;
    in.expect("begin");
    ragged.begin = read_access(in, sigil);
    in.expect("end");
    ragged.end = read_access(in, sigil);
    in.expect("expected");
    ragged.expected = in.integer();
    return ragged;
}

std::string to_text(const Graph& graph) {
    Writer out;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        out.line(label(ValueId(static_cast<std::int64_t>(i))), " = ");
        write(out, graph.nodes[i]);
    }
    for (const Output& output : graph.outputs) {
        out.line("output ", label(output.value), ' ', Quoted{output.name});
        if (output.state_input.valid()) out.put(" state ", label(output.state_input));
    }
    for (const auto& [value, bytes] : graph.constants) {
        if (bytes != nullptr) out.line("bytes ", label(value), ' ', Blob{*bytes});
    }
    return out.take_document();
}

Graph parse_graph(std::string_view text) {
    Reader in(text, "graph text");
    Graph graph;
    while (in.next_is<ValueId>()) {
        in.expect_label(kValueSigil, graph.nodes.size());
        in.expect("=");
        graph.nodes.push_back(read_node(in));
    }
    while (in.accept("output")) graph.outputs.push_back(read_output(in));
    while (in.accept("bytes")) {
        const ValueId value = in.id<ValueId>();
        graph.constants.emplace_back(value, std::make_shared<const std::vector<std::byte>>(in.blob()));
    }
    if (!in.at_end()) in.fail("a value such as %0, 'output' or 'bytes'");
    return graph;
}

}  // namespace stretto
