#include "fuse/evaluations.h"

#include <algorithm>

namespace stretto {
namespace {

bool reads(const Expr& expr, ValueId id) {
    return std::any_of(expr.accesses.begin(), expr.accesses.end(),
                       [&](const Access& access) { return access.source == id.value; });
}

double evaluations_by(const Attention& attention, ValueId id) {
    const auto [b, h, q, s, d] = attention.space;
    const auto splits = static_cast<double>(std::max<std::int64_t>(attention.splits, 1));
    const double staged = (attention.query.source == id.value ? 1 : 0) +
                          (reads(attention.fresh.key, id) ? 1 : 0) +
                          (reads(attention.fresh.value, id) ? 1 : 0);
    const double each =
        staged * static_cast<double>(d) * splits + (reads(attention.mask, id) ? static_cast<double>(s) : 0);
    return static_cast<double>(b * h * q) * each;
}

}  // namespace

double worker_share(double total, const Machine& machine) {
    return std::max(total / machine.workers, 32.0 * machine.consumer_warps);
}

double evaluations(const Graph& graph, ValueId user, ValueId id, const Machine& machine) {
    const Node& node = graph[user];
    if (const auto* contract = std::get_if<Contract>(&node.op)) {
        return static_cast<double>(contract->space[0] * contract->space[1] * contract->space[3]);
    }
    if (const auto* attention = std::get_if<Attention>(&node.op)) {
        return worker_share(evaluations_by(*attention, id), machine);
    }
    std::int64_t total = volume(node.type.shape);
    if (const auto* reduce = std::get_if<Reduce>(&node.op)) {
        total *= reduce->ragged ? reduce->ragged->expected : volume(reduce->extents);
    } else if (const auto* update = std::get_if<Update>(&node.op)) {
        total = volume(update->space);
    }
    return worker_share(static_cast<double>(total), machine);
}

}  // namespace stretto
