#include <cmath>

#include "backends/cases.h"

namespace stretto {
namespace {

enum class Mask : std::uint8_t { None, Length, Bool, Bias };

struct Sizes {
    std::int64_t b = 1;
    std::int64_t key_heads = 2;
    std::int64_t group = 3;
    std::int64_t q = 1;
    std::int64_t s = 300;
    std::int64_t d = 64;
    std::int64_t splits = 2;
    bool tied = false;  ///< values are the keys
};

/// The mask s <= position as an expression, with position + 1 as the length that is read on the device.
void mask_by_length(CaseBuilder& build, const Sizes& s, AttentionRegion& region, BufferId position) {
    const IndexMap one{
        {{atom(s.b, 0)}, {atom(s.key_heads * s.group, 0)}, {atom(s.q, 0)}, {atom(s.s, 0)}, {atom(s.d, 0)}},
        0};
    const std::int32_t last = region.mask.load(build.through(position, one));
    region.mask.apply(Op::Le, DType::Bool, {region.mask.index(3), last});
    Expr& length = region.length;
    const std::int32_t at = length.load(build.through(position, one));
    length.apply(Op::Add, {at, length.add({Op::Const, DType::I64, {}, 1, 0})});
}

/// Which operands get the row at `position` from an expression.
struct Fresh {
    bool key = false;
    bool value = false;
};

/// A row of F32 that is not representable in a narrower type, of which the operand keeps what its type can.
Expr fresh_element(CaseBuilder& build, const Sizes& s) {
    const BufferId row = build.buffer(BufferRole::Input, DType::F32, {s.b, s.key_heads, s.d});
    Expr expr;
    const std::int32_t x = expr.load(build.through(row, {{{atom(s.b, s.key_heads * s.d)},
                                                          {atom(s.key_heads, s.d), atom(s.group, 0)},
                                                          {atom(s.q, 0)},
                                                          {atom(s.s, 0)},
                                                          {atom(s.d, 1)}},
                                                         0}));
    expr.apply(Op::Mul, {x, expr.constant(0.7, DType::F32)});
    return expr;
}

void take_fresh_row(CaseBuilder& build, const Sizes& s, AttentionRegion& region, BufferId position,
                    Fresh fresh) {
    region.fresh.row.load(build.through(
        position,
        {{{atom(s.b, 0)}, {atom(s.key_heads * s.group, 0)}, {atom(s.q, 0)}, {atom(s.s, 0)}, {atom(s.d, 0)}},
         0}));
    if (fresh.key) region.fresh.key = fresh_element(build, s);
    if (fresh.value) region.fresh.value = fresh_element(build, s);
}

Case attention(DType type, const Sizes& s, Mask mask, std::int64_t last_row, const std::string& what,
               Fresh fresh = {}) {
    CaseBuilder build;
    const std::int64_t heads = s.key_heads * s.group;
    const BufferId query = build.buffer(BufferRole::Input, type, {s.b, heads, s.q, s.d});
    const BufferId key = build.buffer(BufferRole::State, type, {s.b, s.key_heads, s.s, s.d});
    const BufferId value = s.tied ? key : build.buffer(BufferRole::State, type, {s.b, s.key_heads, s.s, s.d});
    const BufferId position = build.buffer(BufferRole::Input, DType::I64, {1});
    const std::int64_t width = s.splits > 1 ? s.d + 2 : s.d;
    const BufferId out = build.buffer(BufferRole::Output, DType::F32, {s.splits, s.b, heads, s.q, width});
    AttentionRegion region;
    region.space = {s.b, heads, s.q, s.s, s.d};
    region.group = s.group;
    region.splits = s.splits;
    region.scale = 1 / std::sqrt(static_cast<double>(s.d));
    const std::int64_t rows = s.s * s.d;
    // The query's factor gives it digits that a narrow type does not have.
    const std::int32_t x = region.query.load(build.through(query, {{{atom(s.b, heads * s.q * s.d)},
                                                                    {atom(heads, s.q * s.d)},
                                                                    {atom(s.q, s.d)},
                                                                    {atom(s.s, 0)},
                                                                    {atom(s.d, 1)}},
                                                                   0}));
    region.query.apply(Op::Mul, DType::F32, {x, region.query.constant(1.1, DType::F32)});
    const IndexMap rows_map{{{atom(s.b, s.key_heads * rows)},
                             {atom(s.key_heads, rows), atom(s.group, 0)},
                             {atom(s.q, 0)},
                             {atom(s.s, s.d)},
                             {atom(s.d, 1)}},
                            0};
    region.key = build.through(key, rows_map);
    region.value = build.through(s.tied ? key : value, rows_map);
    region.out = build.through(out, {{{atom(s.b, heads * s.q * width)},
                                      {atom(heads, s.q * width)},
                                      {atom(s.q, width)},
                                      {atom(s.s, 0)},
                                      {atom(s.d, 1)}},
                                     0});
    if (fresh.key || fresh.value) take_fresh_row(build, s, region, position, fresh);
    if (mask == Mask::Length) mask_by_length(build, s, region, position);
    if (mask == Mask::Bool || mask == Mask::Bias) {
        const BufferId given =
            build.buffer(BufferRole::Input, mask == Mask::Bool ? DType::Bool : DType::F32, {s.q, s.s});
        region.mask.load(build.through(
            given,
            {{{atom(s.b, 0)}, {atom(heads, 0)}, {atom(s.q, s.s)}, {atom(s.s, 1)}, {atom(s.d, 0)}}, 0}));
    }
    build.region(std::move(region));
    // Scores are F32 sums of D products, weights are exponentials of them, results are sums of at most S weights. The two
    // narrow parts of a query or a weight leave twice as many bits of it as the type has.
    const double parts = is_narrow_float(type) ? 8 * epsilon(type) * epsilon(type) : 0;
    const double error = 8 * epsilon(DType::F32) * static_cast<double>(s.d + s.s) + parts;
    return {"Attention_" + std::string(name(type)) + "_" + what, build.finish(), error, error,
            [position, last_row](BufferMemory& memory) {
                memory.set(position, {static_cast<double>(last_row)});
            }};
}

}  // namespace

std::vector<Case> attention_cases() {
    std::vector<Case> cases;
    for (DType type : {DType::F16, DType::BF16, DType::F32}) {
        cases.push_back(attention(type, {}, Mask::None, 0, "all_rows"));
        cases.push_back(attention(type, {}, Mask::Length, 149, "length_150"));
        cases.push_back(attention(type, {}, Mask::Bool, 0, "bool_mask"));
        cases.push_back(attention(type, {}, Mask::Bias, 0, "bias"));
        cases.push_back(attention(type, {}, Mask::Length, 149, "fresh_row", {true, true}));
    }
    cases.push_back(attention(DType::BF16, {}, Mask::Length, -1, "no_row"));
    cases.push_back(attention(DType::BF16, {}, Mask::Length, 0, "one_row"));
    cases.push_back(attention(DType::BF16, {}, Mask::Length, 299, "length_is_capacity"));
    cases.push_back(attention(DType::BF16, {}, Mask::Length, 200, "fresh_key", {true, false}));
    cases.push_back(attention(DType::BF16, {}, Mask::Length, 200, "fresh_value", {false, true}));
    cases.push_back(attention(DType::BF16, {}, Mask::None, -1, "fresh_row_from_the_end", {true, true}));
    Sizes whole;
    whole.splits = 1;
    cases.push_back(attention(DType::BF16, whole, Mask::Length, 280, "one_split"));
    whole.s = 100;
    cases.push_back(attention(DType::BF16, whole, Mask::Length, 0, "only_a_fresh_row", {true, true}));
    for (std::int64_t d : {8, 16, 32, 48, 80, 96, 128, 256}) {
        cases.push_back(attention(DType::BF16, {1, 2, 2, 1, 290, d, 3}, Mask::Length, 270,
                                  "width_" + std::to_string(d), {true, true}));
    }
    cases.push_back(
        attention(DType::BF16, {1, 2, 2, 1, 1100, 64, 1}, Mask::Length, 900, "many_turns", {true, true}));
    cases.push_back(attention(DType::BF16, {2, 3, 1, 5, 19, 16, 1}, Mask::Bool, 0, "several_queries"));
    cases.push_back(attention(DType::BF16, {1, 1, 12, 2, 40, 32, 1}, Mask::Bias, 0, "many_query_rows"));
    cases.push_back(
        attention(DType::BF16, {4, 2, 2, 1, 500, 32, 4}, Mask::Length, 470, "batch_4", {true, true}));
    // Rows that are keys and values, with pieces for all lanes or not, and more query rows than registers hold.
    const auto tied = [&](DType type, const Sizes& sizes, Mask mask, const std::string& what) {
        cases.push_back(attention(type, sizes, mask, sizes.s / 2, what));
    };
    tied(DType::BF16, {1, 1, 1, 1, 700, 136, 2, true}, Mask::None, "tied_narrow");
    tied(DType::BF16, {1, 1, 1, 1, 300, 768, 2, true}, Mask::None, "tied_wide");
    tied(DType::BF16, {1, 1, 1, 1, 200, 1024, 2, true}, Mask::None, "tied_widest");
    tied(DType::F16, {1, 1, 1, 2, 300, 320, 2, true}, Mask::Length, "tied_two_queries");
    tied(DType::F32, {2, 1, 3, 1, 200, 96, 2, true}, Mask::Bias, "tied_three_heads");
    tied(DType::BF16, {1, 2, 5, 1, 100, 264, 2, true}, Mask::Bool, "tied_five_heads");
    tied(DType::BF16, {1, 2, 1, 1, 200, 136, 4, true}, Mask::Length, "tied_no_row");
    return cases;
}

}  // namespace stretto
