#include "fuse/text.h"

#include <limits>

namespace stretto {
namespace {

constexpr Names<BufferRole, 6> kRoleNames{"a role",
                                          {"parameter", "state", "constant", "input", "output", "arena"}};

void write_expr(Writer& out, std::string_view part, const Expr& expr) {
    out.line(part);
    write(out, expr, kBufferSigil);
}

void write_access(Writer& out, std::string_view part, const Access& access) {
    out.line(part, ' ');
    write(out, access, kBufferSigil);
}

void write_stores(Writer& out, const std::vector<Store>& stores) {
    for (const Store& store : stores) {
        out.line("store ");
        write_target(out, store.target, store.indices, store.expr, kBufferSigil);
    }
}

Expr read_expr_part(Reader& in, std::string_view part) {
    in.expect(part);
    return read_expr(in, kBufferSigil);
}

Access read_access_part(Reader& in, std::string_view part) {
    in.expect(part);
    return read_access(in, kBufferSigil);
}

std::vector<Store> read_stores(Reader& in) {
    std::vector<Store> stores;
    while (in.accept("store")) {
        Store& store = stores.emplace_back();
        read_target(in, store.target, store.indices, store.expr, kBufferSigil);
    }
    return stores;
}

// A region is written in two parts around its name: its head on the first line, and its body.

void write_head(Writer& out, const MapRegion& region) { out.put("map ", region.space); }
void write_head(Writer& out, const ReduceRegion& region) {
    out.put("reduce ", region.space, " kept ", region.kept);
}
void write_tile(Writer& out, const ProductTile& tile) {
    out.put(" tiles ", tile.rows, " x ", tile.columns, " stages ", tile.stages);
}
void write_head(Writer& out, const MatMulRegion& region) {
    out.put("matmul ", region.space, ' ', name(region.a_type));
    if (region.streamed) out.put(" streamed");
    if (region.tile.rows > 0) {
        write_tile(out, region.tile);
    } else if (region.tile.columns > 0) {
        out.put(" columns ", region.tile.columns);
    }
}
void write_head(Writer& out, const AttentionRegion& region) {
    out.put("attention ", region.space, " group ", region.group, " splits ", region.splits, " scale ",
            region.scale);
}
void write_head(Writer& out, const ScoredRegion& region) {
    const std::string_view op = region.softmax ? "softmax" : kReduceNames[region.op];
    out.put("scored ", op, ' ', region.space, " band ", region.band);
    write_tile(out, region.tile);
}

void write_body(Writer& out, const MapRegion& region) { write_stores(out, region.stores); }
void write_body(Writer& out, const ReduceRegion& region) {
    write(out, region.ragged, kBufferSigil);
    for (const Reduction& reduction : region.reductions)
        write_expr(out, kReduceNames[reduction.op], reduction.term);
    write_stores(out, region.stores);
    if (region.element_stores.empty()) return;
    out.line("elements");
    write_stores(out, region.element_stores);
}
void write_body(Writer& out, const MatMulRegion& region) {
    for (const RowStat& stat : region.stats) {
        write_expr(out, "stat", stat.term);
        out.put(" finish");
        write(out, stat.finish, kBufferSigil);
    }
    write_expr(out, "a", region.a);
    for (const Access& weight : region.weights) write_access(out, "weight", weight);
    write(out, region.ragged, kBufferSigil);
    write_stores(out, region.stores);
}
void write_body(Writer& out, const AttentionRegion& region) {
    write_expr(out, "query", region.query);
    write_access(out, "key", region.key);
    write_access(out, "value", region.value);
    write(out, region.fresh, kBufferSigil);
    if (!region.mask.empty()) write_expr(out, "mask", region.mask);
    if (!region.length.empty()) write_expr(out, "length", region.length);
    write_access(out, "out", region.out);
}
void write_body(Writer& out, const ScoredRegion& region) {
    for (const Score& score : region.scores) {
        write_access(out, "left", score.left);
        write_access(out, "right", score.right);
    }
    for (const ScoredSum& sum : region.sums) {
        write_expr(out, "weight", sum.weight);
        if (sum.factor) write_access(out, "factor", *sum.factor);
    }
    write_stores(out, region.stores);
    if (region.row_stores.empty()) return;
    out.line("rows");
    write_stores(out, region.row_stores);
}

MapRegion read_map_head(Reader& in) {
    MapRegion region;
    region.space = in.shape();
    return region;
}

ReduceRegion read_reduce_head(Reader& in) {
    ReduceRegion region;
    region.space = in.shape();
    in.expect("kept");
    region.kept = static_cast<std::int32_t>(in.integer(0, static_cast<std::int64_t>(region.space.size())));
    return region;
}

ProductTile read_tile(Reader& in) {
    const auto number = [&] {
        return static_cast<std::int32_t>(in.integer(1, std::numeric_limits<std::int32_t>::max()));
    };
    ProductTile tile;
    tile.rows = number();
    in.expect("x");
    tile.columns = number();
    in.expect("stages");
    tile.stages = number();
    return tile;
}

MatMulRegion read_matmul_head(Reader& in) {
    MatMulRegion region;
    region.space = in.extents<4>();
    region.a_type = read_dtype(in);
    region.streamed = in.accept("streamed");
    if (in.accept("tiles")) {
        region.tile = read_tile(in);
    } else if (in.accept("columns")) {
        region.tile.columns =
            static_cast<std::int32_t>(in.integer(1, std::numeric_limits<std::int32_t>::max()));
    }
    return region;
}

AttentionRegion read_attention_head(Reader& in) {
    AttentionRegion region;
    region.space = in.extents<5>();
    in.expect("group");
    region.group = in.integer();
    in.expect("splits");
    region.splits = in.integer();
    in.expect("scale");
    region.scale = in.number();
    return region;
}

ScoredRegion read_scored_head(Reader& in) {
    ScoredRegion region;
    region.softmax = in.accept("softmax");
    if (!region.softmax) region.op = kReduceNames.read(in);
    region.space = in.extents<5>();
    in.expect("band");
    region.band = in.range();
    in.expect("tiles");
    region.tile = read_tile(in);
    return region;
}

RegionBody read_head(Reader& in) {
    if (in.accept("map")) return read_map_head(in);
    if (in.accept("reduce")) return read_reduce_head(in);
    if (in.accept("matmul")) return read_matmul_head(in);
    if (in.accept("attention")) return read_attention_head(in);
    if (in.accept("scored")) return read_scored_head(in);
    in.fail("a kind of region: map, reduce, matmul, attention, scored");
}

void read_body(Reader& in, MapRegion& region) { region.stores = read_stores(in); }
void read_body(Reader& in, ReduceRegion& region) {
    region.ragged = read_ragged(in, kBufferSigil);
    do {
        Reduction& reduction = region.reductions.emplace_back();
        reduction.op = kReduceNames.read(in);
        reduction.term = read_expr(in, kBufferSigil);
    } while (!in.next_is_token("store") && !in.next_is_token("elements") && !in.next_is_token("}"));
    region.stores = read_stores(in);
    if (in.accept("elements")) region.element_stores = read_stores(in);
}
void read_body(Reader& in, MatMulRegion& region) {
    while (in.accept("stat")) {
        RowStat& stat = region.stats.emplace_back();
        stat.term = read_expr(in, kBufferSigil);
        stat.finish = read_expr_part(in, "finish");
    }
    region.a = read_expr_part(in, "a");
    while (in.accept("weight")) region.weights.push_back(read_access(in, kBufferSigil));
    region.ragged = read_ragged(in, kBufferSigil);
    region.stores = read_stores(in);
}
void read_body(Reader& in, AttentionRegion& region) {
    region.query = read_expr_part(in, "query");
    region.key = read_access_part(in, "key");
    region.value = read_access_part(in, "value");
    region.fresh = read_fresh_row(in, kBufferSigil);
    if (in.accept("mask")) region.mask = read_expr(in, kBufferSigil);
    if (in.accept("length")) region.length = read_expr(in, kBufferSigil);
    region.out = read_access_part(in, "out");
}
void read_body(Reader& in, ScoredRegion& region) {
    while (in.accept("left")) {
        Score& score = region.scores.emplace_back();
        score.left = read_access(in, kBufferSigil);
        score.right = read_access_part(in, "right");
    }
    do {
        ScoredSum& sum = region.sums.emplace_back();
        sum.weight = read_expr_part(in, "weight");
        if (in.accept("factor")) sum.factor = read_access(in, kBufferSigil);
    } while (in.next_is_token("weight"));
    region.stores = read_stores(in);
    if (in.accept("rows")) region.row_stores = read_stores(in);
}

void write(Writer& out, const Buffer& buffer) {
    out.put(kRoleNames[buffer.role], ' ', Quoted{buffer.name}, " : ");
    write(out, buffer.dtype, buffer.shape);
    if (buffer.tagged) out.put(" tagged");
    if (buffer.packed) out.put(" packed");
    if (buffer.bytes != nullptr) out.put(' ', Blob{*buffer.bytes});
}

Buffer read_buffer(Reader& in) {
    Buffer buffer;
    buffer.role = kRoleNames.read(in);
    buffer.name = in.quoted();
    in.expect(":");
    read_type(in, buffer.dtype, buffer.shape);
    buffer.tagged = in.accept("tagged");
    buffer.packed = in.accept("packed");
    if (in.next_is_blob()) buffer.bytes = std::make_shared<const std::vector<std::byte>>(in.blob());
    return buffer;
}

void write(Writer& out, const Region& region) {
    std::visit([&](const auto& body) { write_head(out, body); }, region.body);
    out.put(' ', Quoted{region.name});
    out.open();
    std::visit([&](const auto& body) { write_body(out, body); }, region.body);
    out.close();
}

Region read_region(Reader& in) {
    Region region;
    region.body = read_head(in);
    region.name = in.quoted();
    in.expect("{");
    std::visit([&](auto& body) { read_body(in, body); }, region.body);
    in.expect("}");
    return region;
}

}  // namespace

void write(Writer& out, const RegionGraph& graph) {
    for (std::size_t i = 0; i < graph.buffers.size(); ++i) {
        out.line("buffer ", label(BufferId(static_cast<std::int64_t>(i))), " = ");
        write(out, graph.buffers[i]);
    }
    for (std::size_t i = 0; i < graph.regions.size(); ++i) {
        out.line("region ", label(RegionId(static_cast<std::int64_t>(i))), " = ");
        write(out, graph.regions[i]);
    }
}

RegionGraph read_region_graph(Reader& in) {
    RegionGraph graph;
    while (in.accept("buffer")) {
        in.expect_label('b', graph.buffers.size());
        in.expect("=");
        graph.buffers.push_back(read_buffer(in));
    }
    while (in.accept("region")) {
        in.expect_label('r', graph.regions.size());
        in.expect("=");
        graph.regions.push_back(read_region(in));
    }
    return graph;
}

std::string to_text(const RegionGraph& graph) {
    Writer out;
    write(out, graph);
    return out.take_document();
}

RegionGraph parse_region_graph(std::string_view text) {
    Reader in(text, "region text");
    RegionGraph graph = read_region_graph(in);
    if (!in.at_end()) in.fail("'buffer' or 'region'");
    return graph;
}

}  // namespace stretto
