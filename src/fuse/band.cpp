#include "fuse/band.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace stretto {
namespace {

constexpr std::int64_t kRow = 1;
constexpr std::int64_t kContext = 3;
/// A score at or below this is hidden: its exponential after any finite shift is zero in F32.
constexpr double kHidden = -1e30;

Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

Range hull(Range a, Range b) {
    if (a.empty()) return b;
    if (b.empty()) return a;
    return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// row * r + context * c + constant
struct Affine {
    std::int64_t row = 0;
    std::int64_t context = 0;
    std::int64_t constant = 0;
};

Affine sum(const Affine& a, const Affine& b, std::int64_t sign) {
    return {a.row + sign * b.row, a.context + sign * b.context, a.constant + sign * b.constant};
}

/// What is known of one node: the values of c - r where it may be true, may differ from zero, may be visible.
struct Known {
    std::optional<Affine> affine;
    Range truth;
    Range nonzero;
    Range visible;
    bool compared = false;  ///< it is true exactly where c - r is in `truth`
};

class BandFinder {
public:
    BandFinder(const Expr& term, const Shape& space) : term_(term), all_{1 - space[kRow], space[kContext]} {
        for (const ExprNode& node : term_.nodes) known_.push_back(of(node));
    }

    [[nodiscard]] Range band(Counts counts) const {
        return counts == Counts::NonZero ? known_.back().nonzero : known_.back().visible;
    }

    /// Is node i a comparison that holds in all of the band?
    [[nodiscard]] bool holds(std::size_t i, Range band) const {
        return known_[i].compared && known_[i].truth.begin <= band.begin && band.end <= known_[i].truth.end;
    }

private:
    [[nodiscard]] const Known& arg(const ExprNode& node, std::size_t i) const {
        return known_[static_cast<std::size_t>(node.args[i])];
    }

    [[nodiscard]] Known of(const ExprNode& node) const {
        Known known{std::nullopt, all_, all_, all_};
        switch (node.op) {
            case Op::Const:
                return constant(node);
            case Op::Index:
                known.affine = Affine{node.integer == kRow ? 1 : 0, node.integer == kContext ? 1 : 0, 0};
                if (node.integer != kRow && node.integer != kContext) known.affine.reset();
                break;
            case Op::Cast:
                known = arg(node, 0);
                if (is_float(node.type)) known.affine.reset();
                break;
            case Op::Lt:
            case Op::Le:
                compare(node, known);
                break;
            case Op::And:
                known.truth = common(arg(node, 0).truth, arg(node, 1).truth);
                break;
            case Op::Or:
                known.truth = hull(arg(node, 0).truth, arg(node, 1).truth);
                break;
            case Op::Select:
                known.nonzero = selected(node, &Known::nonzero);
                known.visible = selected(node, &Known::visible);
                break;
            case Op::Exp:
                known.nonzero = arg(node, 0).visible;
                break;
            case Op::Neg:
                known.nonzero = arg(node, 0).nonzero;
                break;
            case Op::Add:
                known.affine = combined(node, 1);
                known.nonzero = hull(arg(node, 0).nonzero, arg(node, 1).nonzero);
                known.visible = common(arg(node, 0).visible, arg(node, 1).visible);
                break;
            case Op::Sub:
                known.affine = combined(node, -1);
                known.nonzero = hull(arg(node, 0).nonzero, arg(node, 1).nonzero);
                known.visible = arg(node, 0).visible;
                break;
            case Op::Mul:
                known.nonzero = common(arg(node, 0).nonzero, arg(node, 1).nonzero);
                break;
            case Op::Div:
                known.nonzero = arg(node, 0).nonzero;
                break;
            default:
                break;
        }
        return known;
    }

    [[nodiscard]] Known constant(const ExprNode& node) const {
        if (is_float(node.type)) {
            return {std::nullopt, all_, node.value == 0 ? Range{} : all_,
                    node.value <= kHidden ? Range{} : all_};
        }
        return {Affine{0, 0, node.integer}, all_, node.integer == 0 ? Range{} : all_, all_};
    }

    [[nodiscard]] std::optional<Affine> combined(const ExprNode& node, std::int64_t sign) const {
        const auto& a = arg(node, 0).affine;
        const auto& b = arg(node, 1).affine;
        if (!a || !b || is_float(node.type)) return std::nullopt;
        return sum(*a, *b, sign);
    }

    void compare(const ExprNode& node, Known& known) const {
        const auto& a = arg(node, 0).affine;
        const auto& b = arg(node, 1).affine;
        if (!a || !b) return;
        const Affine less = sum(*a, *b, -1);
        const std::int64_t equal = node.op == Op::Le ? 1 : 0;
        known.compared = less.context * less.row == -1;
        if (!known.compared) return;
        known.truth = common(all_, less.context == 1 ? Range{all_.begin, equal - less.constant}
                                                     : Range{less.constant + 1 - equal, all_.end});
    }

    [[nodiscard]] Range selected(const ExprNode& node, Range Known::*what) const {
        return hull(common(arg(node, 0).truth, arg(node, 1).*what), arg(node, 2).*what);
    }

    const Expr& term_;
    const Range all_;  ///< that there are
    std::vector<Known> known_;
};

}  // namespace

Range band_of(const Expr& term, Counts counts, const Shape& space) {
    const Range band = BandFinder(term, space).band(counts);
    const bool in_first_row = band.end > 0;
    const bool in_last_row = band.begin <= space[kContext] - space[kRow];
    const bool whole = band.empty() || !in_first_row || !in_last_row;
    return whole ? Range{1 - space[kRow], space[kContext]} : band;
}

Expr within_band(const Expr& term, Range band, const Shape& space) {
    const BandFinder found(term, space);
    return folded(rewritten(term, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
        if (!found.holds(i, band)) return std::nullopt;
        return out.constant(1, DType::Bool);
    }));
}

}  // namespace stretto
