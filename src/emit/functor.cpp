#include "emit/functor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "fuse/left_shares.h"
#include "fuse/product_kind.h"
#include "fuse/product_operand.h"
#include "fuse/reduce_lanes.h"

namespace stretto {
namespace {

/// Positions and coordinates are 32-bit on the device.
void ensure_small(std::int64_t positions) {
    ensure(positions <= std::numeric_limits<std::int32_t>::max(),
           "a region's space exceeds 32-bit positions");
}

/// A map of fewer positions has one for each thread at most: what its threads move together only leaves others idle.
constexpr std::int64_t kManyPositions = 1 << 15;

/// A coordinate variable, or "0" where it can only be that.
std::string coordinate(const char* name, std::int64_t extent) { return extent == 1 ? "0" : name; }

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
        case ReduceLanes::Way::Own:
            return "ReduceAcross";
        case ReduceLanes::Way::Columns:
            return "ReduceColumns";
    }
    throw InternalError("a reduction is dealt in an unknown way");
}

/// Builds the kind of one region.
class KindBuilder : FunctorWriter {
public:
    KindBuilder(const RegionGraph& graph, const Region& region, std::int64_t warps)
        : FunctorWriter(graph, region), warps_(warps) {}

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
        const DType acc = accumulator_type(region.term.type());
        alias("Acc", accumulator_name(acc));
        alias("Combine", region.op == ReduceOp::Sum   ? "SumOf"
                         : region.op == ReduceOp::Max ? "MaxOf"
                                                      : "MinOf");

        Scope scope;
        std::vector<std::string> lines = unravelled("kept", kept, 0, scope.coordinates);
        const std::vector<std::string> kept_lines = lines;
        Scope kept_scope = scope;
        for (std::string& line : unravelled("reduced", reduced, kept.size(), scope.coordinates)) {
            lines.push_back(std::move(line));
        }
        const Place place{
            std::move(scope), std::move(lines), {{"I32", "kept", ""}, {"I32", "reduced", ""}}, {}};
        if (lanes.vector > 1) {
            add_terms(region.term, place, lanes.dim, lanes.vector, acc);
        } else {
            add_function("Acc", "term", place.at, returned(region.term, place.scope, acc, place.lines));
        }
        kept_scope.coordinates.resize(region.space.size(), "0");
        if (lanes.way == ReduceLanes::Way::Own) {
            add_bound("begin", region, kept_scope, kept_lines);
            add_bound("end", region, kept_scope, kept_lines);
        } else {
            kind_.functor.constants = {constant("kReduced", volume(reduced)),
                                       constant("kVector", lanes.vector)};
        }
        kept_scope.accumulators = "acc";
        kept_scope.accumulator_type = acc;
        add_function("void", "store", {{"I32", "kept", ""}, {"Acc", "acc", ""}},
                     stores(region.stores, kept_scope, kept_lines));
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
            if (!region.streamed) add_weights(region);
        }
        const Place place{
            {{coordinate("b", batch), coordinate("m", rows), coordinate("n", columns), "0"}, "acc[{}]", acc},
            {},
            {{"I32", "b", ""}, {"I32", "m", ""}, {"I32", "n", ""}},
            {{"const Acc*", "acc", ""}, {"const Acc*", "stat", ""}}};
        add_stores(region.stores, place);
        if (product == abi::ProductKind::Tiles) add_vector_stores(region.stores, place, 2, columns);
        return finished();
    }

    CudaKind operator()(const AttentionRegion& region) {
        const auto& [batch, heads, queries, context, depth] = region.space;
        const bool tensor = on_tensor_cores(region);
        kind_.task_template = tensor ? "AttentionMma" : "Attention";
        if (tensor) alias("Element", element_name(region.key.type));
        kind_.functor.constants = {constant("kD", depth),
                                   constant("kGroup", region.group),
                                   constant("kQ", queries),
                                   constant("kContext", context),
                                   constant("kSplits", region.splits),
                                   flag("kHasLength", !region.length.empty()),
                                   flag("kFreshKey", !region.fresh.key.empty()),
                                   flag("kFreshValue", !region.fresh.value.empty())};
        const std::vector<std::string> at{coordinate("b", batch), coordinate("h", heads),
                                          coordinate("q", queries), coordinate("s", context),
                                          coordinate("d", depth)};
        const CudaMember b{"I32", "b", ""}, h{"I32", "h", ""}, q{"I32", "q", ""}, s{"I32", "s", ""},
            d{"I32", "d", ""};
        const Scope row{{at[0], at[1], "0", "0", at[4]}, "", DType::F32};
        add_staged({"QueryEarly", "load_query", "query"}, {b, h, q, d},
                   {{at[0], at[1], at[2], "0", at[4]}, "", DType::F32}, region.query, DType::F32);
        add_staged({"KeyEarly", "load_fresh_key", "fresh_key"}, {b, h, d}, row, region.fresh.key,
                   region.key.type);
        add_staged({"ValueEarly", "load_fresh_value", "fresh_value"}, {b, h, d}, row, region.fresh.value,
                   region.value.type);
        if (!region.fresh.empty()) {
            add_function("I64", "fresh_row", {b}, returned(region.fresh.row, row, DType::I64, {}));
        }
        if (tensor) {
            add_function("const Element*", "key_at", {b, h, s}, row_address(region.key, at));
            add_function("const Element*", "value_at", {b, h, s}, row_address(region.value, at));
        } else {
            add_function("float", "key", {b, h, s, d}, element(region.key, at));
            add_function("float", "value", {b, h, s, d}, element(region.value, at));
        }
        add_function("float", "score", {b, h, q, s, {"float", "dot", ""}}, score(region, at));
        if (!region.length.empty()) {
            add_function("I64", "length", {b}, returned(region.length, {at, "", DType::F32}, DType::I64, {}));
        }
        add_function("void", "store", {{"I32", "split", ""}, b, h, q, d, {"float", "value", ""}},
                     attention_store(region, at));
        return finished();
    }

private:
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

    /// Along the last dimension; or, where rows are no whole vectors, along all positions.
    void add_vectors(const MapRegion& region, const Place& place) {
        const auto last = std::find_if(region.space.rbegin(), region.space.rend(),
                                       [](std::int64_t extent) { return extent != 1; });
        if (volume(region.space) < kManyPositions) return add_vector_stores({}, place, 0, 1);
        const auto dim = static_cast<std::size_t>(region.space.rend() - last) - 1;
        const auto flat = flattened(region);
        if (vector_length(region.stores, dim, *last) > 1 || !flat)
            return add_vector_stores(region.stores, place, dim, *last);
        const Place positions{{{"at"}, "", DType::F32}, {}, place.at, {}};
        add_vector_stores(flat->stores, positions, 0, flat->space.front());
    }

    std::vector<std::string> element(const Access& access, const std::vector<std::string>& at) {
        Statements body(pointers_, {at, "", DType::F32});
        const std::string value = body.read(access);
        body.add(fmt::format("return {};", converted(value, access.type, DType::F32)));
        return body.take();
    }

    /// Of the first element of a context row.
    std::vector<std::string> row_address(const Access& access, std::vector<std::string> at) {
        at[4] = "0";
        Statements body(pointers_, {std::move(at), "", DType::F32});
        body.add(fmt::format("return {};", body.address(access)));
        return body.take();
    }

    std::vector<std::string> stores(const std::vector<Store>& list, const Scope& scope,
                                    std::vector<std::string> lines) {
        Statements body(pointers_, scope);
        for (std::string& line : lines) body.add(std::move(line));
        for (const Store& store : list) body.store(store);
        return body.take();
    }

    std::vector<std::string> score(const AttentionRegion& region, const std::vector<std::string>& at) {
        Statements body(pointers_, {at, "", DType::F32});
        const std::string scaled = fmt::format("dot * {}", literal(region.scale, DType::F32));
        if (region.mask.empty()) {
            body.add(fmt::format("return {};", scaled));
            return body.take();
        }
        const std::string mask = body.evaluate(region.mask).back();
        const DType type = region.mask.type();
        body.add(type == DType::Bool
                     ? fmt::format("return {} ? {} : -infinity<float>();", mask, scaled)
                     : fmt::format("return {} + {};", scaled, converted(mask, type, DType::F32)));
        return body.take();
    }

    struct StagedNames {
        const char* early;
        const char* load;
        const char* value;
    };

    /// A value that is loaded first and computed later, rounded to `type`; only the type of the load where `expr` is
    /// empty.
    void add_staged(const StagedNames& names, std::vector<CudaMember> at, const Scope& scope,
                    const Expr& expr, DType type) {
        CudaStruct early{names.early, {}, {}};
        if (!expr.empty()) {
            Statements loads(pointers_, scope);
            Statements body(pointers_, scope);
            std::string values;
            const Statements::Known known = known_early(loads, expr, early, values);
            loads.add(fmt::format("return {{{}}};", values));
            add_function(names.early, names.load, at, loads.take());
            const std::string result = converted(body.evaluate(expr, known).back(), expr.type(), type);
            body.add(fmt::format("return {};", converted(result, type, DType::F32)));
            at.push_back({fmt::format("const {}&", names.early), "early", ""});
            add_function("float", names.value, std::move(at), body.take());
        }
        kind_.functor.structs.push_back(std::move(early));
    }

    /// The map of `out` leaves out the split, which is the outermost dimension of its dense buffer.
    std::vector<std::string> attention_store(const AttentionRegion& region, std::vector<std::string> at) {
        const auto& [batch, heads, queries, context, depth] = region.space;
        at.insert(at.begin(), coordinate("split", region.splits));
        at[4] = "0";
        at[5] = "d";
        Access access = region.out;
        access.map.dims.insert(access.map.dims.begin(),
                               {atom(region.splits, batch * heads * queries * (depth + 2))});
        Statements body(pointers_, {at, "", DType::F32});
        body.write(access, "value", DType::F32);
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
              constant("kStages", region.tile.stages), flag("kLeftColumn", left_lies->column),
              constant("kLeftGrain", left_lies->grain), flag("kWeightColumn", weights_lie->column),
              constant("kWeightGrain", weights_lie->grain), flag("kRagged", region.ragged.has_value()),
              flag("kRaggedRows", has_ragged_rows(region))}) {
            kind_.functor.constants.push_back(member);
        }
        const std::string batch = coordinate("b", region.space[0]);
        const auto address = [&](const Access& access, const char* rows) {
            Statements body(pointers_, {{batch, rows, rows, "k"}, "", DType::F32});
            body.add(fmt::format("return {};", body.address(access)));
            return body.take();
        };
        const CudaMember b{"I32", "b", ""}, m{"I32", "m", ""}, n{"I32", "n", ""}, k{"I32", "k", ""};
        add_function("const Left*", "left_at", {b, m, k}, address(*left, "m"));
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
        for (std::size_t j = 0; j < region.weights.size(); ++j) {
            add_function("const Left*", "weight_at", {{fmt::format("Number<{}>", j), "", ""}, b, n, k},
                         address(region.weights[j], "n"));
        }
    }

    /// The functions compute the element k + v, of neighbours that are loaded together.
    void add_prologue(const MatMulRegion& region, DType acc) {
        const LeftShares shares = left_shares(region, warps_);
        for (const CudaMember& member :
             {constant("kStats", static_cast<std::int64_t>(region.stats.size())),
              constant("kInner", inner_stats(region)), constant("kWidth", shares.width),
              constant("kRowWarps", shares.row_warps)}) {
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
