#include "fuse/shift_parts.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "fuse/touches.h"

namespace stretto {
namespace {

/// The one access of an expression that is nothing but an F32 load; nullptr for others.
const Access* plain_load(const Expr& expr) {
    const bool loads = expr.nodes.size() == 1 && expr.nodes.front().op == Op::Load;
    if (!loads || expr.nodes.front().type != DType::F32) return nullptr;
    const Access& access = expr.accesses.front();
    return access.type == DType::F32 && access.indirect.empty() ? &access : nullptr;
}

/// A region that is one reduction, whose result it stores as it is, in F32.
struct Plain {
    const ReduceRegion* region = nullptr;
    const Expr* term = nullptr;
    const Access* target = nullptr;
};

std::optional<Plain> plain_reduction(const Region& region, ReduceOp op) {
    const auto* reduce = std::get_if<ReduceRegion>(&region.body);
    if (reduce == nullptr || reduce->ragged || reduce->reductions.size() != 1 || reduce->stores.size() != 1 ||
        !reduce->element_stores.empty() || reduce->reductions.front().op != op)
        return std::nullopt;
    const Store& store = reduce->stores.front();
    const bool as_it_is = store.expr.nodes.size() == 1 && store.expr.nodes.front().op == Op::Acc &&
                          store.expr.nodes.front().type == DType::F32;
    if (!as_it_is || !store.indices.empty() || store.target.type != DType::F32) return std::nullopt;
    return Plain{reduce, &reduce->reductions.front().term, &store.target};
}

/// What the access is over the first dimensions only, where it is the same along the others.
std::optional<Access> over_first(Access access, std::int32_t count) {
    auto& dims = access.map.dims;
    const bool same = std::all_of(dims.begin() + count, dims.end(), [](const std::vector<Atom>& atoms) {
        return std::all_of(atoms.begin(), atoms.end(),
                           [](const Atom& atom) { return atom.stride == 0 && !atom.masked(); });
    });
    if (!same || !access.indirect.empty()) return std::nullopt;
    dims.resize(static_cast<std::size_t>(count));
    return access;
}

/// exp(of - shift), of which the shift is a plain load.
struct Exponential {
    Expr of;
    Access shift;
};

std::optional<Exponential> exponential_of(const Expr& term) {
    const auto arg = [](const Expr& expr, std::size_t i) {
        return extracted(expr, expr.nodes.back().args[i]);
    };
    if (term.nodes.back().op != Op::Exp || term.type() != DType::F32) return std::nullopt;
    const Expr difference = arg(term, 0);
    if (difference.nodes.back().op != Op::Sub || difference.type() != DType::F32) return std::nullopt;
    const Expr shift = arg(difference, 1);
    const Access* access = plain_load(shift);
    if (access == nullptr) return std::nullopt;
    return Exponential{arg(difference, 0), *access};
}

class Shifter {
public:
    explicit Shifter(RegionGraph& graph) : graph_(graph), touches_(graph) {}

    void run() {
        for (std::size_t r = 0; r < graph_.regions.size(); ++r) {
            if (shift(r)) touches_.update(r);
        }
    }

private:
    /// The region that alone writes the buffer, and before region r, if it is a plain reduction.
    [[nodiscard]] std::optional<Plain> filling(std::int32_t buffer, std::size_t r, ReduceOp op) const {
        const auto writer = touches_.last_writer(buffer, r);
        if (!writer || !touches_.is_filled_by(buffer, *writer)) return std::nullopt;
        return plain_reduction(graph_.regions[*writer], op);
    }

    /// The region that alone reads the buffer, which region r writes.
    [[nodiscard]] std::optional<std::size_t> reader(std::int32_t buffer, std::size_t r) const {
        for (std::size_t q = r + 1; q < graph_.regions.size(); ++q) {
            if (touches_.is_for(buffer, q) && touches_.of(q).count(buffer) > 0) return q;
        }
        return std::nullopt;
    }

    /// Does no region from `first` on, up to region `last`, write what the expression reads?
    [[nodiscard]] bool is_unchanged(const Expr& expr, std::size_t first, std::size_t last) const {
        return std::all_of(expr.accesses.begin(), expr.accesses.end(), [&](const Access& access) {
            return touches_.last_writer(access.source, first) == touches_.last_writer(access.source, last);
        });
    }

    bool shift(std::size_t r) {
        const auto sum = plain_reduction(graph_.regions[r], ReduceOp::Sum);
        const auto exponential = sum ? exponential_of(*sum->term) : std::nullopt;
        if (!exponential) return false;
        const auto whole = filling(exponential->shift.source, r, ReduceOp::Max);
        const Access* part = whole ? plain_load(*whole->term) : nullptr;
        const auto maximum = part != nullptr ? filling(part->source, r, ReduceOp::Max) : std::nullopt;
        const std::int32_t kept = sum->region->kept;
        if (!maximum || maximum->region->space != sum->region->space || maximum->region->kept != kept ||
            *maximum->term != exponential->of)
            return false;
        const auto writer = touches_.last_writer(part->source, r);
        const auto second = reader(sum->target->source, r);
        const auto total = second ? plain_reduction(graph_.regions[*second], ReduceOp::Sum) : std::nullopt;
        const Access* summed = total ? plain_load(*total->term) : nullptr;
        if (summed == nullptr || !is_unchanged(exponential->of, *writer, r)) return false;
        // Both second stages go over the rows and parts that the first ones keep, coordinate by coordinate.
        const Shape& space = sum->region->space;
        const Shape stage(space.begin(), space.begin() + kept);
        for (const Plain& of_parts : {*whole, *total}) {
            if (of_parts.region->space != stage || of_parts.region->kept != whole->region->kept) return false;
        }
        if (over_first(*maximum->target, kept) != *part || over_first(*sum->target, kept) != *summed ||
            over_first(exponential->shift, kept) != *whole->target)
            return false;
        const Expr first = of_part(*exponential, *maximum->target);
        const Expr last = of_row(*summed, *part, *whole->target);
        std::get<ReduceRegion>(graph_.regions[r].body).reductions.front().term = first;
        std::get<ReduceRegion>(graph_.regions[*second].body).reductions.front().term = last;
        touches_.update(*second);
        return true;
    }

    /// A part of nothing but minus infinity has exponentials of zero.
    static Expr of_part(const Exponential& exponential, const Access& maximum) {
        Expr term = exponential.of;
        const std::int32_t x = term.root();
        const std::int32_t lowest = term.constant(std::numeric_limits<float>::lowest(), DType::F32);
        const std::int32_t shift = term.apply(Op::Max, {term.load(maximum), lowest});
        term.apply(Op::Exp, {term.apply(Op::Sub, {x, shift})});
        return term;
    }

    static Expr of_row(const Access& sum, const Access& part, const Access& whole) {
        Expr term;
        const std::int32_t terms = term.load(sum);
        const std::int32_t below = term.apply(Op::Sub, {term.load(part), term.load(whole)});
        term.apply(Op::Mul, {terms, term.apply(Op::Exp, {below})});
        return term;
    }

    RegionGraph& graph_;
    Touches touches_;
};

}  // namespace

void shift_parts(RegionGraph& graph) { Shifter(graph).run(); }

}  // namespace stretto
