#include "emit/functor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "emit/attention_kind.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "emit/scored_kind.h"
#include "fuse/groups.h"
#include "fuse/left_shares.h"
#include "fuse/narrow_product.h"
#include "fuse/product_kind.h"
#include "fuse/product_operand.h"
#include "fuse/reduce_lanes.h"

namespace stretto {
namespace {

constexpr std::int64_t kLanesOfWarp = 32;

/// Positions and coordinates are 32-bit on the device.
void ensure_small(std::int64_t positions) {
    ensure(positions <= std::numeric_limits<std::int32_t>::max(),
           "a region's space exceeds 32-bit positions");
}

std::string accumulator_name(DType type) { return cuda_name(domain_of(type)); }

DType accumulator_type(DType element) {
    const Domain domain = domain_of(element);
    return domain == Domain::F64 ? DType::F64 : domain == Domain::F32 ? DType::F32 : DType::I64;
}

const char* template_of(abi::ProductKind kind) {
    switch (kind) {
        case abi::ProductKind::Direct:
            return "MatMulDirect";
        case abi::ProductKind::Rows:
            return "MatMul";
        case abi::ProductKind::Panels:
            return "MatMulPanels";
        case abi::ProductKind::Tiles:
            return "MatMulTiles";
    }
    throw InternalError("a product is of an unknown kind");
}

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
        alias("Acc", accumulator_name(acc));
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
        const bool holds = together && vector > 1 && !rest && passes.size() > 1 &&
                           add_held(passes, place, lanes.dim, vector, lane_groups);
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

    CudaKind operator()(const MatMulRegion& region) {
        const auto& [batch, rows, columns, depth] = region.space;
        ensure_small(batch * rows * depth);
        ensure_small(columns * depth);
        const abi::ProductKind product = product_kind(region);
        kind_.task_template = template_of(product);
        const DType acc = accumulator_type(region.a_type);
        alias("Acc", accumulator_name(acc));
        alias("Left", element_name(region.a_type));
        if (region.streamed) alias("Weight", element_name(streamed_type(region)));
        kind_.functor.constants = {constant("kB", batch), constant("kM", rows), constant("kK", depth),
                                   constant("kWeights", static_cast<std::int64_t>(region.weights.size()))};
        if (product == abi::ProductKind::Tiles) {
            add_operands(region);
        } else {
            add_prologue(region, acc);
            if (const auto lie = wide_weights(region)) {
                kind_.task_template = "MatMulWide";
                kind_.functor.constants.push_back(flag("kWeightColumn", lie->column));
                kind_.functor.constants.push_back(constant("kColumns", region.tile.columns));
                add_addresses(region);
            } else if (!region.streamed) {
                add_weights(region);
            }
        }
        const Place place{
            {{coordinate("b", batch), coordinate("m", rows), coordinate("n", columns), "0"}, "acc[{}]", acc},
            {},
            {{"I32", "b", ""}, {"I32", "m", ""}, {"I32", "n", ""}},
            {{"const Acc*", "acc", ""}, {"const Acc*", "stat", ""}}};
        add_stores(region.stores, place);
        if (product == abi::ProductKind::Tiles) {
            const std::int64_t together = group_length(graph_, region.stores, 2, columns, true);
            add_vector_stores(region.stores, place, 2, together);
            kind_.functor.constants.push_back(flag("kRest", columns % together != 0));
        }
        return finished();
    }

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

    /// What a product of many rows copies as it lies in memory.
    void add_operands(const MatMulRegion& region) {
        const Access* left = plain_left_side(region);
        const auto left_lies = left != nullptr ? plain_operand(*left, 1) : std::nullopt;
        const auto weights_lie = plain_weights(region);
        ensure(left_lies && weights_lie, "a product in tiles has an operand that is not plain");
        for (const CudaMember& member :
             {constant("kTileRows", region.tile.rows), constant("kTileColumns", region.tile.columns),
              constant("kStages", region.tile.stages), constant("kRowLines", row_lines(region)),
              flag("kLeftColumn", left_lies->column), constant("kLeftGrain", left_lies->grain),
              flag("kWeightColumn", weights_lie->column), constant("kWeightGrain", weights_lie->grain),
              flag("kRagged", region.ragged.has_value()), flag("kRaggedRows", has_ragged_rows(region))}) {
            kind_.functor.constants.push_back(member);
        }
        const std::string batch = coordinate("b", region.space[0]);
        const CudaMember b{"I32", "b", ""}, m{"I32", "m", ""}, k{"I32", "k", ""};
        add_function("const Left*", "left_at", {b, m, k}, address(region, *left, "m"));
        if (region.ragged) {
            const auto bound = [&](const Access& access) {
                Statements body(pointers_, {{batch, "m", "0", "0"}, "", DType::F32});
                const std::string at = body.read(access);
                body.add(fmt::format("return static_cast<I32>(clamped({}, {}));", at, region.space[3]));
                return body.take();
            };
            add_function("I32", "begin", {b, m}, bound(region.ragged->begin));
            add_function("I32", "end", {b, m}, bound(region.ragged->end));
        }
        add_addresses(region);
    }

    /// Where an element of an operand is, whose rows are this coordinate.
    std::vector<std::string> address(const MatMulRegion& region, const Access& access, const char* rows) {
        Statements body(pointers_, {{coordinate("b", region.space[0]), rows, rows, "k"}, "", DType::F32});
        body.add(fmt::format("return {};", body.address(access)));
        return body.take();
    }

    void add_addresses(const MatMulRegion& region) {
        for (std::size_t j = 0; j < region.weights.size(); ++j) {
            const CudaMember which{fmt::format("Number<{}>", j), "", ""};
            add_function("const Left*", "weight_at",
                         {which, {"I32", "b", ""}, {"I32", "n", ""}, {"I32", "k", ""}},
                         address(region, region.weights[j], "n"));
        }
    }

    /// The functions compute the element k + v, of neighbours that are loaded together.
    void add_prologue(const MatMulRegion& region, DType acc) {
        const LeftShares shares = left_shares(graph_, region, warps_);
        for (const CudaMember& member :
             {constant("kStats", static_cast<std::int64_t>(region.stats.size())),
              constant("kInner", inner_stats(region)), constant("kWidth", shares.width),
              constant("kRowWarps", shares.row_warps), constant("kStaged", shares.depth)}) {
            kind_.functor.constants.push_back(member);
        }
        const Scope first{{coordinate("b", region.space[0]), coordinate("m", region.space[1]), "0",
                           coordinate("k", region.space[3])},
                          "sum",
                          acc};
        Scope scope = first;
        if (shares.width > 1) scope.coordinates[3] = "(k + v)";
        const CudaMember b{"I32", "b", ""}, m{"I32", "m", ""}, k{"I32", "k", ""}, v{"I32", "v", ""},
            stat{"const Acc*", "stat", ""}, early_left{"const LeftEarly&", "early", ""};
        CudaStruct early{"LeftEarly", {}, {}};
        Statements loads(pointers_, first);
        std::string values;
        const auto known = [&](const Expr& expr) {
            return shares.width > 1 ? known_vectors(loads, expr, 3, shares.width, early, values)
                                    : known_early(loads, expr, early, values);
        };
        // `a` is rounded when it is staged, in the type of the staged elements.
        const DType wide = is_narrow_float(region.a_type) ? DType::F32 : region.a_type;
        for (std::size_t j = 0; j < region.stats.size(); ++j) {
            const CudaMember which{fmt::format("Number<{}>", j), "", ""};
            Statements term(pointers_, scope);
            const std::string value = term.evaluate(region.stats[j].term, known(region.stats[j].term)).back();
            term.add(fmt::format("return {};", converted(value, region.stats[j].term.type(), acc)));
            add_function("Acc", "stat_term", {which, b, m, k, v, stat, early_left}, term.take());
            Scope finish = first;
            finish.coordinates[3] = "0";
            add_function("Acc", "stat_finish", {which, b, m, {"Acc", "sum", ""}, stat},
                         returned(region.stats[j].finish, finish, acc, {}));
        }
        Statements body(pointers_, scope);
        const std::string result = body.evaluate(region.a, known(region.a)).back();
        loads.add(fmt::format("return {{{}}};", values));
        add_function("LeftEarly", "load_left", {b, m, k}, loads.take());
        body.add(fmt::format("return {};", converted(result, region.a.type(), wide)));
        add_function("Acc", "left", {b, m, k, v, stat, early_left}, body.take());
        kind_.functor.structs.push_back(std::move(early));
    }

    /// How many statistics, from the first on, must be known before the left side and the other statistics' terms.
    static std::int64_t inner_stats(const MatMulRegion& region) {
        std::int64_t inner = 0;
        const auto look = [&](const Expr& expr) {
            for (const ExprNode& node : expr.nodes) {
                if (node.op == Op::Stat) inner = std::max(inner, node.integer + 1);
            }
        };
        look(region.a);
        for (const RowStat& stat : region.stats) look(stat.term);
        return inner;
    }

    void add_weights(const MatMulRegion& region) {
        const Scope scope{{coordinate("b", region.space[0]), "0", coordinate("n", region.space[2]),
                           coordinate("k", region.space[3])},
                          "",
                          DType::F32};
        for (std::size_t j = 0; j < region.weights.size(); ++j) {
            Statements body(pointers_, scope);
            body.add(fmt::format("return {};", body.read(region.weights[j])));
            add_function("Acc", "weight",
                         {{fmt::format("Number<{}>", j), "", ""},
                          {"I32", "b", ""},
                          {"I32", "n", ""},
                          {"I32", "k", ""}},
                         body.take());
        }
    }

    static DType streamed_type(const MatMulRegion& region) {
        for (const Access& weight : region.weights) {
            ensure(weight.type == region.weights.front().type,
                   "the streamed weights of a region differ in type");
        }
        return region.weights.front().type;
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
