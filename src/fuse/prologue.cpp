#include "fuse/prologue.h"

#include <algorithm>
#include <map>

#include "graph/index_groups.h"
#include "graph/inline.h"

namespace stretto {
namespace {

class PrologueMaker {
public:
    PrologueMaker(const std::array<std::int64_t, 4>& space,
                  const std::function<const InlineReduction*(std::int32_t)>& reduction_of)
        : space_(space), reduction_of_(reduction_of) {}

    Prologue run(const Expr& a) {
        result_.a = resolved(a);
        for (std::size_t j = 0; j < result_.stats.size(); ++j) hoist(j);
        return std::move(result_);
    }

private:
    /// `expr` with its loads of reductions replaced by Stat nodes; makes the statistics, inner ones first.
    Expr resolved(const Expr& expr) {
        return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            if (expr.nodes[i].op != Op::Load) return std::nullopt;
            const Access& access = expr.accesses[static_cast<std::size_t>(expr.nodes[i].integer)];
            const InlineReduction* reduction = reduction_of_(access.source);
            if (reduction == nullptr) return std::nullopt;
            return out.stat(statistic(access, *reduction));
        });
    }

    int statistic(const Access& access, const InlineReduction& reduction) {
        const auto same =
            std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == access; });
        if (same != known_.end()) return same->second;
        const std::int64_t length = volume(reduction.reduce->extents);
        const bool along_rows = length == space_[3] && access.indirect.empty() && !access.map.masked() &&
                                !moves_along(access.map, 2) && !moves_along(access.map, 3);
        if (!along_rows) throw Inexpressible{access.source};
        // The position of (result coordinate, reduced coordinate) in the row-major space of the term.
        IndexMap view = access.map;
        view.offset *= length;
        for (auto& digits : view.dims) {
            for (Atom& digit : digits) digit.stride *= length;
        }
        view.dims[3] = {atom(length, 1)};
        Shape term_space = reduction.shape;
        term_space.insert(term_space.end(), reduction.reduce->extents.begin(),
                          reduction.reduce->extents.end());
        const auto term = through_view(reduction.term, view, term_space);
        if (!term) throw Inexpressible{access.source};
        RowStat stat;
        stat.term = resolved(*term);
        stat.finish.acc(0);
        result_.stats.push_back(std::move(stat));
        const int number = static_cast<int>(result_.stats.size()) - 1;
        known_.emplace_back(access, number);
        return number;
    }

    /// If every use of Stat(j) goes through one and the same scalar expression of it, that becomes its finish.
    void hoist(std::size_t j) {
        std::vector<Expr*> users{&result_.a};
        for (std::size_t k = j + 1; k < result_.stats.size(); ++k) users.push_back(&result_.stats[k].term);
        Expr finish;
        for (const Expr* user : users) {
            const auto scalar = only_scalar_of(*user, j);
            if (scalar < 0) continue;
            const Expr candidate = extracted(*user, scalar);
            if (finish.empty()) {
                finish = candidate;
            } else if (!(finish == candidate)) {
                return;
            }
        }
        if (finish.empty() || finish.nodes.size() < 2) return;
        for (Expr* user : users) {
            const auto scalar = only_scalar_of(*user, j);
            if (scalar >= 0) *user = replaced(*user, scalar, j);
        }
        for (ExprNode& node : finish.nodes) {
            if (node.op == Op::Stat) node = {Op::Acc, DType::F32, {}, 0, 0};
        }
        result_.stats[j].finish = finish;
    }

    /// The largest node made of Stat(j) and constants alone through which all uses of Stat(j) go; -1 if unused, the
    /// Stat node itself if uses differ.
    static std::int32_t only_scalar_of(const Expr& expr, std::size_t j) {
        std::int32_t stat = -1;
        for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
            if (expr.nodes[i].op == Op::Stat && expr.nodes[i].integer == static_cast<std::int64_t>(j)) {
                stat = static_cast<std::int32_t>(i);
            }
        }
        if (stat < 0) return -1;
        std::int32_t top = stat;
        for (;;) {
            std::int32_t user = -1;
            for (std::size_t i = static_cast<std::size_t>(top) + 1; i < expr.nodes.size(); ++i) {
                const auto& args = expr.nodes[i].args;
                if (std::find(args.begin(), args.end(), top) == args.end()) continue;
                if (user >= 0) return top;
                user = static_cast<std::int32_t>(i);
            }
            if (user < 0) return top;
            const ExprNode& node = expr.nodes[static_cast<std::size_t>(user)];
            if (node.op == Op::Load) return top;
            for (std::int32_t arg : node.args) {
                if (arg != top && expr.nodes[static_cast<std::size_t>(arg)].op != Op::Const) return top;
            }
            if (node.type != DType::F32) return top;
            top = user;
        }
    }

    static Expr replaced(const Expr& expr, std::int32_t scalar, std::size_t j) {
        return rewritten(expr, [&](Expr& out, std::size_t i) -> std::optional<std::int32_t> {
            if (static_cast<std::int32_t>(i) != scalar) return std::nullopt;
            return out.stat(static_cast<int>(j));
        });
    }

    const std::array<std::int64_t, 4>& space_;
    const std::function<const InlineReduction*(std::int32_t)>& reduction_of_;
    Prologue result_;
    std::vector<std::pair<Access, int>> known_;
};

}  // namespace

Prologue make_prologue(const Expr& a, const std::array<std::int64_t, 4>& space,
                       const std::function<const InlineReduction*(std::int32_t)>& reduction_of) {
    return PrologueMaker(space, reduction_of).run(a);
}

}  // namespace stretto
