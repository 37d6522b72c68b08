#include "fuse/passes.h"

#include <algorithm>
#include <numeric>

#include "fuse/joined_stores.h"

namespace stretto {
namespace {

/// One more than the largest value that `of` gives for a result that the expression uses; 0 where it uses none.
template <class Of>
std::int64_t behind_results(const Expr& expr, const Of& of) {
    std::int64_t behind = 0;
    for (const ExprNode& node : expr.nodes) {
        if (node.op == Op::Acc) behind = std::max<std::int64_t>(behind, of(node.integer) + 1);
    }
    return behind;
}

}  // namespace

std::vector<Pass> passes_of(const ReduceRegion& region) {
    std::vector<Pass> passes;
    for (std::int64_t j = 0; j < std::ssize(region.reductions); ++j) {
        const Expr& term = region.reductions[static_cast<std::size_t>(j)].term;
        const std::int64_t behind = behind_results(term, [](std::int64_t result) { return result; });
        if (passes.empty() || behind > passes.back().reductions.begin) passes.push_back({{j, j}, {}, {}});
        Pass& pass = passes.back();
        pass.reductions.end = j + 1;
        pass.nodes.push_back(copy_into(pass.expr, term, term.root()));
    }
    return passes;
}

void sort_by_pass(ReduceRegion& region) {
    std::vector<std::int64_t> pass;
    for (const Reduction& reduction : region.reductions) {
        pass.push_back(behind_results(reduction.term, [&](std::int64_t result) { return pass.at(result); }));
    }
    std::vector<std::size_t> order(pass.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pass[a] < pass[b]; });
    std::vector<std::size_t> numbers(order.size());
    std::vector<Reduction> sorted;
    for (const std::size_t j : order) {
        numbers[j] = sorted.size();
        sorted.push_back(std::move(region.reductions[j]));
    }
    for (Reduction& reduction : sorted) reduction.term = renumbered(reduction.term, numbers);
    for (std::vector<Store>* stores : {&region.stores, &region.element_stores}) {
        for (Store& store : *stores) store.expr = renumbered(store.expr, numbers);
    }
    region.reductions = std::move(sorted);
}

}  // namespace stretto
