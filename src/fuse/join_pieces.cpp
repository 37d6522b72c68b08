#include "fuse/join_pieces.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fuse/joined_stores.h"
#include "fuse/touches.h"

namespace stretto {
namespace {

/// What a map reads at `along` of the joined dimension.
struct Piece {
    Range along;
    const Access* access;
};

/// The value of a node at one coordinate, as far as it matters here: which load it is, or which number.
struct Value {
    std::optional<std::int64_t> load;
    std::optional<std::int64_t> number;
    bool operator==(const Value&) const = default;
};

/// The positions of dimension `dim` that are not masked, where nothing but its outermost digit masks any.
std::optional<Range> unmasked(const Access& access, std::size_t dim) {
    IndexMap map = normalized(access.map);
    Atom& outermost = map.dims[dim].front();
    std::int64_t period = 1;
    for (std::size_t i = 1; i < map.dims[dim].size(); ++i) period *= map.dims[dim][i].extent;
    const Range found{outermost.lo * period, outermost.hi * period};
    outermost = atom(outermost.extent, outermost.stride);
    return map.masked() || !access.indirect.empty() ? std::nullopt : std::optional(found);
}

/// The dimension along which all loads are masked and nowhere else; nothing where they are not.
std::optional<std::size_t> joined_dim(const Expr& expr) {
    const auto all = [&](auto&& holds) {
        return std::all_of(expr.accesses.begin(), expr.accesses.end(), holds);
    };
    if (!all([](const Access& access) { return access.map.masked(); })) return std::nullopt;
    for (std::size_t d = 0; d < expr.accesses.front().map.rank(); ++d) {
        if (all([&](const Access& access) { return unmasked(access, d).has_value(); })) return d;
    }
    return std::nullopt;
}

Value value_of(const ExprNode& node, const std::vector<Value>& values) {
    const auto arg = [&](std::size_t i) { return values[static_cast<std::size_t>(node.args[i])]; };
    switch (node.op) {
        case Op::Not:
            return {{}, arg(0).number ? std::optional<std::int64_t>(*arg(0).number == 0) : std::nullopt};
        case Op::Select:
            return !arg(0).number ? Value{} : *arg(0).number != 0 ? arg(1) : arg(2);
        case Op::Lt:
        case Op::Le:
        case Op::Eq:
        case Op::Ne:
        case Op::And:
        case Op::Or:
            break;
        default:
            return {};
    }
    if (!arg(0).number || !arg(1).number) return {};
    const std::int64_t a = *arg(0).number, b = *arg(1).number;
    const bool holds = node.op == Op::Lt    ? a < b
                       : node.op == Op::Le  ? a <= b
                       : node.op == Op::Eq  ? a == b
                       : node.op == Op::Ne  ? a != b
                       : node.op == Op::And ? (a & b) != 0
                                            : (a | b) != 0;
    return {{}, holds};
}

/// The expression where the coordinate of `dim` is `at`.
Value evaluated(const Expr& expr, std::size_t dim, std::int64_t at) {
    std::vector<Value> values;
    for (const ExprNode& node : expr.nodes) {
        Value value;
        if (node.op == Op::Const && !is_float(node.type)) value.number = node.integer;
        if (node.op == Op::Index && node.integer == static_cast<std::int64_t>(dim)) value.number = at;
        if (node.op == Op::Load) {
            const Range read = *unmasked(expr.accesses[static_cast<std::size_t>(node.integer)], dim);
            if (at >= read.begin && at < read.end) value.load = node.integer;
        }
        if (!node.args.empty() && node.op != Op::Load) value = value_of(node, values);
        values.push_back(value);
    }
    return values.back();
}

/// The pieces that a map puts along `dim`, each the whole of what one load reads; empty where it does anything else.
std::vector<Piece> pieces_of(const Expr& expr, std::size_t dim, std::int64_t extent) {
    std::set<std::int64_t> ends{0, extent};
    for (const Access& access : expr.accesses) {
        ends.insert({unmasked(access, dim)->begin, unmasked(access, dim)->end});
    }
    std::vector<Piece> pieces;
    for (auto end = std::next(ends.begin()); end != ends.end(); ++end) {
        // Comparisons of a coordinate with what is no end of a piece would differ at the two.
        const Range along{*std::prev(end), *end};
        const Value value = evaluated(expr, dim, along.begin);
        if (!value.load || value != evaluated(expr, dim, along.end - 1)) return {};
        const Access& access = expr.accesses[static_cast<std::size_t>(*value.load)];
        if (unmasked(access, dim) != along) return {};
        pieces.push_back({along, &access});
    }
    return pieces.size() == expr.accesses.size() ? pieces : std::vector<Piece>();
}

/// Where the elements of a piece of `volume` elements lie in the joined buffer, in their row-major order: `from` and `to` say,
/// over the same space, where they are read and where they are put. Nothing where reading is not one to one.
std::optional<IndexMap> places(const IndexMap& from, const IndexMap& to, std::int64_t volume) {
    struct Digit {
        std::int64_t extent;
        std::int64_t from;
        std::int64_t to;
    };
    std::vector<Digit> digits;
    for (std::size_t d = 0; d < from.rank(); ++d) {
        if (to.dims[d].size() != 1) return std::nullopt;
        std::int64_t period = to.dims[d].front().extent;
        for (const Atom& a : from.dims[d]) {
            period /= a.extent;
            if (a.extent > 1) digits.push_back({a.extent, a.stride, to.dims[d].front().stride * period});
        }
    }
    std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.from > b.from; });
    IndexMap map;
    map.offset = to.offset;
    std::int64_t inner = volume;
    for (const Digit& digit : digits) {
        if (digit.from * digit.extent != inner) return std::nullopt;
        inner = digit.from;
        map.dims.push_back({atom(digit.extent, digit.to)});
    }
    return inner == 1 && from.offset == 0 ? std::optional(map) : std::nullopt;
}

class Joiner {
public:
    explicit Joiner(RegionGraph& graph) : graph_(graph), touches_(graph) {}

    /// Moves the stores of all pieces, or of none.
    [[nodiscard]] bool join(std::size_t r) {
        auto* map = std::get_if<MapRegion>(&graph_.regions[r].body);
        if (map == nullptr || map->stores.size() != 1) return false;
        const Store& store = map->stores.front();
        if (!store.indices.empty() || store.target.map.masked() || store.expr.accesses.empty()) return false;
        const auto dim = joined_dim(store.expr);
        if (!dim || !touches_.is_filled_by(store.target.source, r)) return false;
        std::vector<Moved> moved;
        for (const Piece& piece : pieces_of(store.expr, *dim, map->space[*dim])) {
            auto move = moved_store(r, piece, store.target, *dim);
            if (!move) return false;
            moved.push_back(std::move(*move));
        }
        if (moved.empty()) return false;
        for (const auto& [writer, buffer, target] : moved) {
            change_accesses(graph_.regions[writer], [&](Access& access) {
                if (access.source == buffer) access = target;
            });
            touches_.update(writer);
        }
        map->stores.clear();
        touches_.update(r);
        return true;
    }

private:
    /// A region's only access of a buffer, and what takes its place.
    struct Moved {
        std::size_t region;
        std::int32_t buffer;
        Access target;
    };

    /// Nothing where a piece is not for the map alone, or cannot be stored where that has it.
    [[nodiscard]] std::optional<Moved> moved_store(std::size_t reader, const Piece& piece,
                                                   const Access& joined, std::size_t dim) const {
        const std::int32_t buffer = piece.access->source;
        if (!touches_.is_for(buffer, reader)) return std::nullopt;
        const auto writer = touches_.last_writer(buffer, reader);
        // Partial results of attention are more than their access says.
        if (!writer || std::holds_alternative<AttentionRegion>(graph_.regions[*writer].body))
            return std::nullopt;
        const Touch& touch = touches_.of(*writer).at(buffer);
        if (!touch.access || touch.reads || !touches_.of(reader).at(buffer).access) return std::nullopt;
        auto target = target_of(*touch.access, piece, joined, dim);
        if (!target) return std::nullopt;
        return Moved{*writer, buffer, std::move(*target)};
    }

    [[nodiscard]] std::optional<Access> target_of(const Access& writer, const Piece& piece,
                                                  const Access& joined, std::size_t dim) const {
        // A wider element would have lost the piece's rounding.
        if (writer.type != joined.type && writer.type != DType::F32) return std::nullopt;
        if (!writer.indirect.empty() || writer.map.masked()) return std::nullopt;
        const auto from = sliced(normalized(piece.access->map), dim, piece.along.begin, piece.along.size());
        const auto to = sliced(normalized(joined.map), dim, piece.along.begin, piece.along.size());
        if (!from || !to) return std::nullopt;
        const auto inner = places(*from, *to, volume(graph_[BufferId(writer.source)].shape));
        auto map = inner ? composed(writer.map, inner->shape(), *inner) : std::nullopt;
        if (!map) return std::nullopt;
        return Access{joined.source, joined.type, std::move(*map), {}};
    }

    RegionGraph& graph_;
    Touches touches_;
};

}  // namespace

void store_pieces_joined(RegionGraph& graph) {
    Joiner joiner(graph);
    bool any = false;
    // Of what is joined twice the outer map goes: the inner one stores where that would have.
    for (std::size_t r = graph.regions.size(); r-- > 0;) any |= joiner.join(r);
    if (any) remove_empty(graph);
}

}  // namespace stretto
