#include "fuse/widen.h"

#include <algorithm>
#include <vector>

#include "fuse/product_kind.h"

namespace stretto {
namespace {

/// A wider buffer costs its readers less than a hand-off's variation up to about this size (read from L2).
constexpr std::int64_t kMostBytes = 256 * 1024;

/// Is `region`'s left side nothing but one load, which the staging rounds to its own type again?
bool only_stages(const Region& region, const Access& access) {
    const auto* matmul = std::get_if<MatMulRegion>(&region.body);
    if (matmul == nullptr || matmul->a_type != access.type) return false;
    return matmul->a.nodes.size() == 1 && matmul->a.accesses.size() == 1 &&
           &matmul->a.accesses.front() == &access;
}

/// Is the access an operand of a main loop that takes elements as they lie in memory?
bool is_raw(const Region& region, const Access& access) {
    if (const auto* attention = std::get_if<AttentionRegion>(&region.body)) {
        return &access == &attention->key || &access == &attention->value;
    }
    if (const auto* scored = std::get_if<ScoredRegion>(&region.body)) {
        const auto is_factor = [&](const ScoredSum& sum) { return sum.factor && &access == &*sum.factor; };
        const auto is_side = [&](const Score& score) {
            return &access == &score.left || &access == &score.right;
        };
        return std::any_of(scored->sums.begin(), scored->sums.end(), is_factor) ||
               std::any_of(scored->scores.begin(), scored->scores.end(), is_side);
    }
    if (const auto* matmul = std::get_if<MatMulRegion>(&region.body)) {
        for (const Access& weight : matmul->weights) {
            if (&weight == &access) return true;
        }
        return product_kind(*matmul) == abi::ProductKind::Tiles && &access == &matmul->a.accesses.front();
    }
    return false;
}

std::vector<bool> choose(const RegionGraph& graph) {
    std::vector<bool> raw(graph.buffers.size(), false);
    std::vector<bool> gains(graph.buffers.size(), false);
    for (const Region& region : graph.regions) {
        for (const Use& use : uses(region)) {
            const auto buffer = static_cast<std::size_t>(use.access->source);
            if (is_raw(region, *use.access)) raw[buffer] = true;
            if (!use.write && !only_stages(region, *use.access)) gains[buffer] = true;
        }
    }
    std::vector<bool> chosen(graph.buffers.size(), false);
    for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
        const Buffer& buffer = graph.buffers[b];
        chosen[b] = buffer.role == BufferRole::Arena && is_narrow_float(buffer.dtype) && gains[b] &&
                    !raw[b] && buffer.size_bytes() <= kMostBytes;
    }
    return chosen;
}

/// Loads of chosen buffers yield F32; conversions that this makes idle go away.
void retype(Expr& expr, const std::vector<bool>& chosen, bool fold) {
    for (Access& access : expr.accesses) {
        if (chosen[static_cast<std::size_t>(access.source)]) access.type = DType::F32;
    }
    for (ExprNode& node : expr.nodes) {
        if (node.op == Op::Load) node.type = expr.accesses[static_cast<std::size_t>(node.integer)].type;
    }
    if (fold) expr = folded(expr);
}

struct Retype {
    const std::vector<bool>& chosen;

    void stores(std::vector<Store>& list) const {
        for (Store& store : list) {
            // The coordinates of an indirect store are named by node number.
            retype(store.expr, chosen, store.indices.empty());
            if (chosen[static_cast<std::size_t>(store.target.source)]) store.target.type = DType::F32;
        }
    }
    void operator()(MapRegion& region) const { stores(region.stores); }
    void operator()(ReduceRegion& region) const {
        for (Reduction& reduction : region.reductions) retype(reduction.term, chosen, true);
        stores(region.stores);
        stores(region.element_stores);
    }
    void operator()(MatMulRegion& region) const {
        for (RowStat& stat : region.stats) {
            retype(stat.term, chosen, true);
            retype(stat.finish, chosen, true);
        }
        retype(region.a, chosen, true);
        stores(region.stores);
    }
    void operator()(ScoredRegion& region) const {
        for (ScoredSum& sum : region.sums) retype(sum.weight, chosen, true);
        stores(region.stores);
        stores(region.row_stores);
    }
    void operator()(AttentionRegion& region) const {
        retype(region.query, chosen, true);
        for (Expr* expr : {&region.fresh.row, &region.fresh.key, &region.fresh.value}) {
            if (!expr->empty()) retype(*expr, chosen, true);
        }
        if (!region.mask.empty()) retype(region.mask, chosen, true);
        if (!region.length.empty()) retype(region.length, chosen, true);
        if (chosen[static_cast<std::size_t>(region.out.source)]) region.out.type = DType::F32;
    }
};

struct DropRoundings {
    static void stores(std::vector<Store>& list) {
        for (Store& store : list) {
            // The coordinates of an indirect store are named by node number.
            if (store.indices.empty()) store.expr = widened(store.expr);
        }
    }
    void operator()(MapRegion& region) const { stores(region.stores); }
    void operator()(MatMulRegion& region) const { stores(region.stores); }
    void operator()(ReduceRegion&) const {}
    void operator()(AttentionRegion&) const {}
    void operator()(ScoredRegion&) const {}
};

}  // namespace

void widen_intermediates(RegionGraph& graph) {
    for (Region& region : graph.regions) std::visit(DropRoundings{}, region.body);
    const std::vector<bool> chosen = choose(graph);
    for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
        if (chosen[b]) graph.buffers[b].dtype = DType::F32;
    }
    for (Region& region : graph.regions) std::visit(Retype{chosen}, region.body);
}

}  // namespace stretto
