#include "emit/functor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/warp.h"
#include "emit/attention_kind.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "emit/matmul_kind.h"
#include "emit/scored_kind.h"
#include "fuse/groups.h"
#include "fuse/reduce_lanes.h"

namespace stretto {
namespace {

const char* template_of(ReduceLanes::Way way) {
    switch (way) {
        case ReduceLanes::Way::Along:
            return "Reduce";
        case ReduceLanes::Way::Together:
            return "ReduceTogether";
        case ReduceLanes::Way::Own:
            return "ReduceAcross";
        case ReduceLanes::Way::Alone:
            return "ReduceAlone";
        case ReduceLanes::Way::Columns:
            return "ReduceColumns";
    }
    throw InternalError("a reduction is dealt in an unknown way");
}

/// Builds the kind of one region.
class KindBuilder : FunctorWriter {
public:
    KindBuilder(const RegionGraph& graph, const Region& region, std::int64_t warps)
        : FunctorWriter(graph, region), graph_(graph), whole_(region), warps_(warps) {}

    CudaKind operator()(const MapRegion& region) {
        kind_.task_template = "Map";
        ensure_small(volume(region.space));
        Scope scope;
        std::vector<std::string> lines = unravelled("at", region.space, 0, scope.coordinates);
        const Place place{std::move(scope), std::move(lines), {{"I32", "at", ""}}, {}};
        add_stores(region.stores, place);
        add_vectors(region, place);
        return finished();
    }

    CudaKind operator()(const ReduceRegion& region) {
        const ReduceLanes lanes = reduce_lanes(region);
        kind_.task_template = template_of(lanes.way);
        const auto split = region.space.begin() + region.kept;
        const Shape kept(region.space.begin(), split);
        const Shape reduced(split, region.space.end());
        ensure_small(volume(kept));
        ensure_small(volume(reduced));
        const DType acc = accumulator_type(region.reductions.front().term.type());
        alias("Acc", cuda_name(domain_of(acc)));
        const std::vector<Pass> passes = passes_of(region);
        ensure(passes.size() == 1 || lanes.way != ReduceLanes::Way::Columns,
               "results of columns are not known to the terms of others");
        alias("Passes", pass_list(region, passes));

        Scope scope;
        std::vector<std::string> lines = unravelled("kept", kept, 0, scope.coordinates);
        const std::vector<std::string> kept_lines = lines;
        Scope kept_scope = scope;
        for (std::string& line : unravelled("reduced", reduced, kept.size(), scope.coordinates)) {
            lines.push_back(std::move(line));
        }
        const bool own = lanes.way == ReduceLanes::Way::Own;
        // Words are asked for, and given, one by one.
        const std::int64_t vector = own && has_words() ? 1 : lanes.vector;
        const bool rest = lanes.dim >= kept.size() && volume(reduced) % vector != 0;
        scope.accumulators = kept_scope.accumulators = "acc[{}]";
        scope.accumulator_type = kept_scope.accumulator_type = acc;
        if (own && vector > 1) scope.accumulators = fmt::format("acc[{{}} * {} + v]", vector);
        const Place place{std::move(scope),
                          std::move(lines),
                          {{"I32", "kept", ""}, {"I32", "reduced", ""}},
                          {{"const Acc*", "acc", ""}}};
        const bool together = lanes.way == ReduceLanes::Way::Together;
        const std::int64_t step = vector * warps_ * kLanesOfWarp;
        const std::int64_t lane_groups = (volume(reduced) + step - 1) / step;
        // Several passes load a group once; words are all asked for before the first is waited for.
        const bool gains = vector > 1 ? passes.size() > 1 : has_words();
        const bool holds =
            together && !rest && gains && add_held(passes, place, lanes.dim, vector, lane_groups);
        if (together) kind_.functor.constants.push_back(flag("kHolds", holds));
        for (std::int64_t p = 0; p < std::ssize(passes); ++p) {
            add_terms(passes[p], p, place, lanes.dim, vector, acc, holds);
            if (rest) add_terms(passes[p], p, place, lanes.dim, 1, acc);
        }
        kept_scope.coordinates.resize(region.space.size(), "0");
        kind_.functor.constants.push_back(constant("kReduced", volume(reduced)));
        if (own) {
            kind_.functor.constants.push_back(flag("kRagged", region.ragged.has_value()));
            add_bound("begin", region, kept_scope, kept_lines);
            add_bound("end", region, kept_scope, kept_lines);
        }
        if (own && vector > 1) {
            const Place at{kept_scope, kept_lines, {{"I32", "kept", ""}}, {{"const Acc*", "acc", ""}}};
            add_vector_stores(region.stores, at, lanes.dim, vector);
            return finished();
        }
        kind_.functor.constants.push_back(constant("kVector", vector));
        add_function("void", "store", {{"I32", "kept", ""}, {"const Acc*", "acc", ""}},
                     stores(region.stores, kept_scope, kept_lines));
        if (lanes.way == ReduceLanes::Way::Along || lanes.way == ReduceLanes::Way::Together)
            add_elements(region, lanes, place);
        return finished();
    }

    CudaKind operator()(const MatMulRegion&) { return matmul_kind(graph_, whole_, warps_); }
    CudaKind operator()(const AttentionRegion&) { return attention_kind(graph_, whole_); }
    CudaKind operator()(const ScoredRegion&) { return scored_kind(graph_, whole_); }

private:
    /// How the reductions of each pass combine, as a type.
    static std::string pass_list(const ReduceRegion& region, const std::vector<Pass>& passes) {
        std::vector<std::string> types;
        for (const Pass& pass : passes) {
            std::vector<const char*> combines;
            for (std::int64_t j = pass.reductions.begin; j < pass.reductions.end; ++j)
                combines.push_back(combine_of(region.reductions[j].op));
            types.push_back(fmt::format("Pass<{}>", fmt::join(combines, ", ")));
        }
        return fmt::format("PassList<{}>", fmt::join(types, ", "));
    }

    void add_elements(const ReduceRegion& region, const ReduceLanes& lanes, Place place) {
        kind_.functor.constants.push_back(flag("kElements", !region.element_stores.empty()));
        if (region.element_stores.empty()) return;
        place.of_row = true;
        const std::int64_t extent = region.space[lanes.dim];
        const Shape reduced(region.space.begin() + region.kept, region.space.end());
        add_stores(region.element_stores, place);
        add_vector_stores(region.element_stores, place, lanes.dim,
                          lanes.vector > 1 ? group_length(graph_, region.element_stores, lanes.dim, extent,
                                                          volume(reduced) == extent)
                                           : 1,
                          "kStored");
    }

    /// The first term of a kept position that counts, or the one after the last.
    void add_bound(const std::string& which, const ReduceRegion& region, const Scope& scope,
                   const std::vector<std::string>& lines) {
        const Shape reduced(region.space.begin() + region.kept, region.space.end());
        Statements body(pointers_, scope);
        if (region.ragged) {
            const std::int64_t extent = reduced.front(),
                               inner = volume(reduced) / std::max<std::int64_t>(extent, 1);
            for (const std::string& line : lines) body.add(line);
            const std::string at = body.read(which == "begin" ? region.ragged->begin : region.ragged->end);
            body.add(fmt::format("return static_cast<I32>(clamped({}, {})) * {};", at, extent, inner));
        } else {
            body.add(fmt::format("return {};", which == "begin" ? 0 : volume(reduced)));
        }
        add_function("I32", which.c_str(), {{"I32", "kept", ""}}, body.take());
    }

    void add_vectors(const MapRegion& region, const Place& place) {
        const MapGroups groups = map_groups(graph_, region);
        kind_.functor.constants.push_back(
            flag("kFew", groups.length == 1 && volume(region.space) <= kManyPositions));
        if (groups.way == MapGroups::Way::Flat) {
            const auto flat = flattened(region);
            const Place positions{{{"at"}, "", DType::F32}, {}, place.at, {}};
            return add_vector_stores(flat->stores, positions, groups.dim, groups.length);
        }
        add_vector_stores(region.stores, place, groups.dim, groups.length);
        if (groups.way == MapGroups::Way::Rows) return;
        kind_.task_template = "MapRows";
        kind_.functor.constants.push_back(constant("kRow", region.space[groups.dim]));
    }

    [[nodiscard]] bool has_words() const {
        const std::vector<Use> all = uses(whole_);
        return std::any_of(all.begin(), all.end(),
                           [&](const Use& use) { return graph_[BufferId(use.access->source)].tagged; });
    }

    std::vector<std::string> stores(const std::vector<Store>& list, const Scope& scope,
                                    std::vector<std::string> lines) {
        Statements body(pointers_, scope);
        for (std::string& line : lines) body.add(std::move(line));
        for (const Store& store : list) body.store(store);
        return body.take();
    }

    const RegionGraph& graph_;
    const Region& whole_;
    std::int64_t warps_;  ///< consumer warps of a worker
};

}  // namespace

CudaKind kind_of(const RegionGraph& graph, const Region& region, std::int64_t warps) {
    return std::visit(KindBuilder(graph, region, warps), region.body);
}

std::string type_name(const std::string& region_name) {
    const std::string path = region_name.substr(0, region_name.find('#'));
    const std::string last = path.substr(path.rfind('.') + 1);
    std::string name;
    bool upper = true;
    for (char c : last) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
            upper = true;
            continue;
        }
        name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        upper = false;
    }
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) name = "Region" + name;
    return name;
}

}  // namespace stretto
