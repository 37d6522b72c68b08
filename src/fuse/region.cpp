#include "fuse/region.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "abi/abi.h"

namespace stretto {
namespace {

/// Calls visit(access, is_write, in_prologue) for every access of a region body, const or not.
template <class Visit>
class Walker {
public:
    explicit Walker(Visit visit) : visit_(std::move(visit)) {}

    template <class Body>
    void operator()(Body& body) const {
        using Kind = std::remove_const_t<Body>;
        if constexpr (std::is_same_v<Kind, MapRegion>) {
            stores(body.stores);
        } else if constexpr (std::is_same_v<Kind, ReduceRegion>) {
            if (body.ragged) {
                visit_(body.ragged->begin, false, false);
                visit_(body.ragged->end, false, false);
            }
            for (auto& reduction : body.reductions) reads(reduction.term, false);
            stores(body.stores);
            stores(body.element_stores);
        } else if constexpr (std::is_same_v<Kind, MatMulRegion>) {
            for (auto& stat : body.stats) {
                reads(stat.term, true);
                reads(stat.finish, true);
            }
            reads(body.a, true);
            if (body.ragged) {
                visit_(body.ragged->begin, false, true);
                visit_(body.ragged->end, false, true);
            }
            for (auto& weight : body.weights) visit_(weight, false, false);
            stores(body.stores);
        } else if constexpr (std::is_same_v<Kind, ScoredRegion>) {
            for (auto& score : body.scores) {
                visit_(score.left, false, false);
                visit_(score.right, false, false);
            }
            for (auto& sum : body.sums) {
                reads(sum.weight, false);
                if (sum.factor) visit_(*sum.factor, false, false);
            }
            stores(body.stores);
            stores(body.row_stores);
        } else {
            reads(body.query, false);
            visit_(body.key, false, false);
            visit_(body.value, false, false);
            reads(body.fresh.row, false);
            reads(body.fresh.key, false);
            reads(body.fresh.value, false);
            reads(body.mask, false);
            reads(body.length, false);
            visit_(body.out, true, false);
        }
    }

private:
    template <class E>
    void reads(E& expr, bool in_prologue) const {
        for (auto& access : expr.accesses) visit_(access, false, in_prologue);
    }
    template <class Stores>
    void stores(Stores& list) const {
        for (auto& store : list) {
            reads(store.expr, false);
            visit_(store.target, true, false);
        }
    }

    Visit visit_;
};

struct SpaceOf {
    Shape operator()(const MapRegion& region) const { return region.space; }
    Shape operator()(const ReduceRegion& region) const { return region.space; }
    Shape operator()(const MatMulRegion& region) const { return {region.space.begin(), region.space.end()}; }
    Shape operator()(const AttentionRegion& region) const {
        return {region.space.begin(), region.space.end()};
    }
    Shape operator()(const ScoredRegion& region) const { return {region.space.begin(), region.space.end()}; }
};

/// Are the last dimension's elements neighbours, and all rows at multiples of 16 bytes?
bool has_aligned_rows(const Access& access) {
    const std::int64_t elements = 16 / static_cast<std::int64_t>(size_of(access.type));
    const IndexMap map = normalized(access.map);
    if (map.masked() || map.offset % elements != 0) return false;
    for (std::size_t d = 0; d + 1 < map.dims.size(); ++d) {
        for (const Atom& digit : map.dims[d]) {
            if (digit.extent > 1 && digit.stride % elements != 0) return false;
        }
    }
    return map.dims.back().size() == 1 && map.dims.back().front().stride == 1;
}

}  // namespace

bool on_tensor_cores(const AttentionRegion& region) {
    const std::int64_t depth = region.space[4];
    const DType type = region.key.type;
    return (type == DType::BF16 || type == DType::F16) && region.value.type == type && depth % 16 == 0 &&
           depth <= 128 && has_aligned_rows(region.key) && has_aligned_rows(region.value);
}

bool reads_rows_once(const AttentionRegion& region) {
    const std::int64_t depth = region.space[4];
    const DType type = region.key.type;
    const auto size = static_cast<std::int64_t>(size_of(type));
    return region.key == region.value && region.fresh.empty() && is_float(type) && type != DType::F64 &&
           depth * size % 16 == 0 && depth <= kWidestRow && depth * size <= kMostRowBytes &&
           has_aligned_rows(region.key) && !on_tensor_cores(region);
}

Range scored_context(const ScoredRegion& region, Range rows) {
    constexpr std::int64_t kBlock = abi::kScoredBlock;
    const std::int64_t begin = std::max<std::int64_t>(rows.begin + region.band.begin, 0);
    const std::int64_t end = std::max<std::int64_t>(rows.end - 1 + region.band.end, 0);
    return {begin / kBlock * kBlock, std::min<std::int64_t>(abi::round_up(end, kBlock), region.space[3])};
}

std::vector<Use> uses(const Region& region) {
    std::vector<Use> out;
    std::visit(Walker([&](const Access& access, bool write, bool in_prologue) {
                   out.push_back({&access, write, in_prologue});
               }),
               region.body);
    return out;
}

void change_accesses(Region& region, const std::function<void(Access&)>& change) {
    std::visit(Walker([&](Access& access, bool, bool) { change(access); }), region.body);
}

Shape space_of(const Region& region) { return std::visit(SpaceOf{}, region.body); }

}  // namespace stretto
