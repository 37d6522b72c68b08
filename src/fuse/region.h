#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"

namespace stretto {

enum class BufferRole : std::uint8_t {
    Parameter,  ///< bound once, never written
    State,      ///< bound once, read and written
    Constant,   ///< bytes in the program
    Input,      ///< bound at each launch, read
    Output,     ///< bound at each launch, written
    Arena,      ///< intermediate
};

/// Bytes of an epoch-tagged word: 32 bits of value, 32 bits of tag.
inline constexpr std::int64_t kWordBytes = 8;
/// Bytes of a packed one: a float of which the lowest bit is the tag (decision 11).
inline constexpr std::int64_t kPackedWordBytes = 4;

/// A dense row-major allocation.
struct Buffer {
    std::string name;
    DType dtype = DType::F32;
    Shape shape;
    BufferRole role = BufferRole::Arena;
    std::shared_ptr<const std::vector<std::byte>> bytes;  ///< of a Constant
    /// Of an Arena buffer, chosen by `schedule`: each element lies in an 8-byte word beside the tag of the iteration that
    /// wrote it, so that its readers can wait for the element itself.
    bool tagged = false;
    /// Of a tagged buffer of floats of at most 32 bits: its words are packed. F32 does without its last bit.
    bool packed = false;

    [[nodiscard]] std::int64_t element_bytes() const {
        if (tagged) return packed ? kPackedWordBytes : kWordBytes;
        return static_cast<std::int64_t>(size_of(dtype));
    }
    [[nodiscard]] std::int64_t size_bytes() const { return volume(shape) * element_bytes(); }
    bool operator==(const Buffer& other) const {
        return name == other.name && dtype == other.dtype && shape == other.shape && role == other.role &&
               tagged == other.tagged && packed == other.packed && same_bytes(bytes, other.bytes);
    }
};

/// buffer[target(i)] = expr(i), rounded to the buffer's type. `indices` are the nodes of expr that give the
/// target's indirect coordinates; the value is expr's last node.
struct Store {
    Access target;
    Expr expr;
    std::vector<std::int32_t> indices;
    bool operator==(const Store&) const = default;
};

/// Element-wise work over `space`; the iteration coordinates are those of `space`.
struct MapRegion {
    Shape space;
    std::vector<Store> stores;
    bool operator==(const MapRegion&) const = default;
};

/// One result of each row of a ReduceRegion. The term may use earlier results of its row: Acc(i) of reductions before it.
struct Reduction {
    ReduceOp op = ReduceOp::Sum;
    Expr term;
    bool operator==(const Reduction&) const = default;
};

/// For each row, a coordinate of the first `kept` dimensions of `space`: Acc(j) = reduction j of its terms over the other
/// dimensions, in F32 (F64 for F64, I64 for integers), one domain for all; then the stores, over the kept coordinates, and the
/// element stores, over all coordinates, which see the results of their row and read nothing that the region writes. Terms
/// are gone through in passes (fuse/passes.h), each for all reductions that wait for earlier passes only. The first reduced
/// dimension may be ragged.
struct ReduceRegion {
    Shape space;
    std::int32_t kept = 0;
    std::vector<Reduction> reductions;
    std::optional<Ragged>
        ragged;  ///< over the coordinates of `space`; its bounds vary with the kept ones only
    std::vector<Store> stores;
    std::vector<Store> element_stores;  ///< only where warps have the rows (ReduceLanes)
    bool operator==(const ReduceRegion&) const = default;
};

/// Row statistic of a MatMul: Stat(j) = finish(sum over k of term(b, m, k)). `term` and `finish` are over (b, m, n = 0, k)
/// and may use earlier Stat nodes; `finish` sees the sum as Acc(0). The left side and the stores may use all of them.
struct RowStat {
    Expr term;
    Expr finish;
    bool operator==(const RowStat&) const = default;
};

/// How a product of many rows is cut: a task computes at most `rows` x `columns` results of each weight, and `stages` blocks
/// of k of its operands are in shared memory at one time.
struct ProductTile {
    std::int32_t rows = 0;
    std::int32_t columns = 0;
    std::int32_t stages = 0;
    bool operator==(const ProductTile&) const = default;
};

/// Acc(j)[b, m, n] = sum over k of round(a(b, m, k)) * weights[j](b, n, k), accumulated in F32, for each of
/// one or more weights that share the left side; then the stores over (b, m, n). All coordinates are [b, m,
/// n, k].
struct MatMulRegion {
    std::array<std::int64_t, 4> space{};
    std::vector<RowStat> stats;
    Expr a;  ///< rounded to `a_type` before the product
    DType a_type = DType::BF16;
    std::vector<Access> weights;
    bool streamed = false;  ///< weight rows are contiguous and constant in a launch: they go through the ring
    ProductTile
        tile;  ///< empty, but of many rows (then `a` is a plain load); of few rows columns only (narrow_cut)
    /// Over the same coordinates, at n = 0; bounds vary with (b, m) only. Only products in tiles are ragged.
    std::optional<Ragged> ragged;
    std::vector<Store> stores;
    bool operator==(const MatMulRegion&) const = default;
};

/// Softmax attention. The rows s of the context are dealt to `splits` in blocks of abi::kAttentionBlock rows, round robin. One
/// split writes its result to out(b, h, q, d). Several write partial results: split j, for each (b, h, q), to
/// out[j, b, h, q, :] (F32, D + 2 wide) the result of its rows alone, then the logarithm of the sum of their exp(score), then
/// the largest score (0, -inf and -inf where it has no row). `out` is the access of split 0.
/// Coordinates are [b, h, q, s, d]. `group` neighbouring heads share key and value rows.
struct AttentionRegion {
    std::array<std::int64_t, 5> space{};
    std::int64_t group = 1;
    std::int64_t splits = 1;
    double scale = 1;
    Expr query;
    Access key;
    Access value;
    FreshRow fresh;  ///< over the same coordinates
    Expr mask;       ///< empty, or Bool / float bias over (b, h, q, s)
    Expr length;     ///< empty, or I64 over b: rows s >= length are masked for every (h, q), and not used
    Access out;
    bool operator==(const AttentionRegion&) const = default;
};

/// Is the attention one that the device computes on tensor cores? Keys and values are of one 16-bit type, with D a
/// multiple of 16 and at most 128 (wider rows do not fit in registers), and their rows lie as 16-byte loads need them.
[[nodiscard]] bool on_tensor_cores(const AttentionRegion& region);

/// Elements and bytes of a row that a warp's registers hold, as sums and on their way.
inline constexpr std::int64_t kWidestRow = 1024;
inline constexpr std::int64_t kMostRowBytes = 3072;

/// Is it an attention whose values are its keys, in rows that the device reads once, 16 bytes at a time?
[[nodiscard]] bool reads_rows_once(const AttentionRegion& region);

/// One score of a pair of a row and a context position: score(b, r, c) = sum over e of left(b, r, e) * right(b, c, e), in F32.
struct Score {
    Access left;
    Access right;
    bool operator==(const Score&) const = default;
};

/// What is summed over the context positions of a row. Acc(j) of `weight` is score j.
struct ScoredSum {
    Expr weight;
    std::optional<Access> factor;
    bool operator==(const ScoredSum&) const = default;
};

/// Sums over many context positions whose weights come from scores that are computed where they are needed and never
/// stored. Coordinates are [b, r, n, c, e]. With factors, Acc(s)[b, r, n] = sum over c of round(weight(b, r, c)) *
/// factor(b, c, n) of sum s, rounded to the factor's type, which is that of all scores; one sum alone may have none (n is 1):
/// Acc(0)[b, r] = reduction over c of weight(b, r, c). Only c with band.begin <= c - r < band.end count; all others would
/// not change the result. Then the stores, over (b, r, n).
/// With `softmax`, the weight of the only sum gives x(b, r, c), and the weights are exp(x - Acc(0)[b, r]) / Acc(1)[b, r], of
/// which Acc(0) is the largest x of the row and Acc(1) the sum of exp(x - Acc(0)); the row stores, over (b, r), see these two.
struct ScoredRegion {
    std::array<std::int64_t, 5> space{};
    std::vector<Score> scores;
    std::vector<ScoredSum> sums;
    ReduceOp op = ReduceOp::Sum;
    bool softmax = false;
    Range band;
    ProductTile tile;  ///< its columns are context positions
    std::vector<Store> stores;
    std::vector<Store> row_stores;
    bool operator==(const ScoredRegion&) const = default;
};

/// The context positions that a task of these rows goes through: whole blocks of abi::kScoredBlock, but for the last one of
/// the context.
[[nodiscard]] Range scored_context(const ScoredRegion& region, Range rows);

using RegionBody = std::variant<MapRegion, ReduceRegion, MatMulRegion, AttentionRegion, ScoredRegion>;

/// For reports, by index of RegionBody.
inline constexpr std::array<const char*, std::variant_size_v<RegionBody>> kKindNames{
    "map", "reduce", "matmul", "attention", "scored"};

struct Region {
    std::string name;  ///< unique, e.g. "layers.3.mlp.down_proj#41"
    RegionBody body;
    bool operator==(const Region&) const = default;
};

/// Regions in program order: a region sees the writes of earlier ones only.
struct RegionGraph {
    std::vector<Buffer> buffers;
    std::vector<Region> regions;

    [[nodiscard]] const Buffer& operator[](BufferId id) const { return buffers.at(id.index()); }
    [[nodiscard]] const Region& operator[](RegionId id) const { return regions.at(id.index()); }
    bool operator==(const RegionGraph&) const = default;
};

/// One use of a buffer by a region, with the coordinates over which it is evaluated.
struct Use {
    const Access* access = nullptr;
    bool write = false;
    bool in_prologue = false;  ///< evaluated for all k (MatMul) whatever the tile of n
};

/// Every access of a region, in a fixed order (the operand order of its records).
[[nodiscard]] std::vector<Use> uses(const Region& region);

/// Calls `change` with every access of a region, in the order of `uses`.
void change_accesses(Region& region, const std::function<void(Access&)>& change);

/// Extents of the coordinates that the region's accesses take.
[[nodiscard]] Shape space_of(const Region& region);

}  // namespace stretto
