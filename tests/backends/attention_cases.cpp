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
    std::int64_t s = 40;
    std::int64_t d = 64;
    std::int64_t splits = 2;
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

Case attention(DType type, const Sizes& s, Mask mask, std::int64_t last_row, const std::string& what) {
    CaseBuilder build;
    const std::int64_t heads = s.key_heads * s.group;
    const BufferId query = build.buffer(BufferRole::Input, type, {s.b, heads, s.q, s.d});
    const BufferId key = build.buffer(BufferRole::State, type, {s.b, s.key_heads, s.s, s.d});
    const BufferId value = build.buffer(BufferRole::State, type, {s.b, s.key_heads, s.s, s.d});
    const BufferId position = build.buffer(BufferRole::Input, DType::I64, {1});
    const BufferId out = build.buffer(BufferRole::Output, DType::F32, {s.splits, s.b, heads, s.q, s.d + 2});
    AttentionRegion region;
    region.space = {s.b, heads, s.q, s.s, s.d};
    region.group = s.group;
    region.splits = s.splits;
    region.scale = 1 / std::sqrt(static_cast<double>(s.d));
    const std::int64_t rows = s.s * s.d;
    region.query.load(build.through(query, {{{atom(s.b, heads * s.q * s.d)},
                                             {atom(heads, s.q * s.d)},
                                             {atom(s.q, s.d)},
                                             {atom(s.s, 0)},
                                             {atom(s.d, 1)}},
                                            0}));
    const IndexMap rows_map{{{atom(s.b, s.key_heads * rows)},
                             {atom(s.key_heads, rows), atom(s.group, 0)},
                             {atom(s.q, 0)},
                             {atom(s.s, s.d)},
                             {atom(s.d, 1)}},
                            0};
    region.key = build.through(key, rows_map);
    region.value = build.through(value, rows_map);
    const std::int64_t width = s.d + 2;
    region.partial = build.through(out, {{{atom(s.b, heads * s.q * width)},
                                          {atom(heads, s.q * width)},
                                          {atom(s.q, width)},
                                          {atom(s.s, 0)},
                                          {atom(s.d, 1)}},
                                         0});
    if (mask == Mask::Length) mask_by_length(build, s, region, position);
    if (mask == Mask::Bool || mask == Mask::Bias) {
        const BufferId given =
            build.buffer(BufferRole::Input, mask == Mask::Bool ? DType::Bool : DType::F32, {s.q, s.s});
        region.mask.load(build.through(
            given,
            {{{atom(s.b, 0)}, {atom(heads, 0)}, {atom(s.q, s.s)}, {atom(s.s, 1)}, {atom(s.d, 0)}}, 0}));
    }
    build.region(std::move(region));
    // Scores are F32 sums of D products, weights are exponentials of them, results are sums of at most S weights.
    const double error = 8 * epsilon(DType::F32) * static_cast<double>(s.d + s.s);
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
        cases.push_back(attention(type, {}, Mask::Length, 28, "length_29"));
        cases.push_back(attention(type, {}, Mask::Bool, 0, "bool_mask"));
        cases.push_back(attention(type, {}, Mask::Bias, 0, "bias"));
    }
    cases.push_back(attention(DType::BF16, {}, Mask::Length, -1, "no_row"));
    cases.push_back(attention(DType::BF16, {}, Mask::Length, 0, "one_row"));
    cases.push_back(attention(DType::BF16, {}, Mask::Length, 39, "length_is_capacity"));
    for (std::int64_t d : {8, 16, 32, 80, 128}) {
        cases.push_back(
            attention(DType::BF16, {1, 2, 2, 1, 33, d, 3}, Mask::Length, 30, "width_" + std::to_string(d)));
    }
    cases.push_back(attention(DType::BF16, {2, 3, 1, 5, 19, 16, 1}, Mask::Bool, 0, "several_queries"));
    cases.push_back(attention(DType::BF16, {4, 2, 2, 1, 100, 32, 4}, Mask::Length, 70, "batch_4"));
    return cases;
}

}  // namespace stretto
