#include "emit/functor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/operand_slots.h"
#include "emit/statements.h"
#include "fuse/product_kind.h"

namespace stretto {
namespace {

std::string number(std::int64_t value) { return fmt::format("{}", value); }

CudaMember constant(const char* name, std::int64_t value) { return {"I32", name, number(value)}; }

CudaMember flag(const char* name, bool value) { return {"bool", name, value ? "true" : "false"}; }

/// Positions and coordinates are 32-bit on the device.
void ensure_small(std::int64_t positions) {
    ensure(positions <= std::numeric_limits<std::int32_t>::max(),
           "a region's space exceeds 32-bit positions");
}

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
    }
    throw InternalError("a product is of an unknown kind");
}

/// Builds the kind of one region, function by function.
class KindBuilder {
public:
    KindBuilder(const RegionGraph& graph, const Region& region) : pointers_(graph, operand_slots(region)) {}

    CudaKind operator()(const MapRegion& region) {
        kind_.task_template = "Map";
        ensure_small(volume(region.space));
        Scope scope;
        const std::vector<std::string> lines = unravelled("at", region.space, 0, scope.coordinates);
        add_stores(region.stores, scope, lines, {{"I32", "at", ""}}, {});
        return finished();
    }

    CudaKind operator()(const ReduceRegion& region) {
        const bool across = lanes_have_own_results(region);
        kind_.task_template = across ? "ReduceAcross" : "Reduce";
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
        add_function("Acc", "term", {{"I32", "kept", ""}, {"I32", "reduced", ""}},
                     returned(region.term, scope, acc, std::move(lines)));
        kept_scope.coordinates.resize(region.space.size(), "0");
        if (across) {
            add_bound("begin", region, kept_scope, kept_lines);
            add_bound("end", region, kept_scope, kept_lines);
        } else {
            kind_.functor.constants.push_back(constant("kReduced", volume(reduced)));
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
        kind_.task_template = template_of(product_kind(region));
        const DType acc = accumulator_type(region.a_type);
        alias("Acc", accumulator_name(acc));
        alias("Left", element_name(region.a_type));
        if (region.streamed) alias("Weight", element_name(streamed_type(region)));
        kind_.functor.constants = {constant("kB", batch),
                                   constant("kM", rows),
                                   constant("kK", depth),
                                   constant("kWeights", static_cast<std::int64_t>(region.weights.size())),
                                   constant("kStats", static_cast<std::int64_t>(region.stats.size())),
                                   constant("kInner", inner_stats(region))};
        add_prologue(region, acc);
        if (!region.streamed) add_weights(region);
        add_stores(
            region.stores,
            {{coordinate("b", batch), coordinate("m", rows), coordinate("n", columns), "0"}, "acc[{}]", acc},
            {}, {{"I32", "b", ""}, {"I32", "m", ""}, {"I32", "n", ""}},
            {{"const Acc*", "acc", ""}, {"const Acc*", "stat", ""}});
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
    void alias(const char* name, std::string type) {
        kind_.functor.aliases.push_back({std::move(type), name, ""});
    }

    void add_function(const char* result, const char* name, std::vector<CudaMember> parameters,
                      std::vector<std::string> body) {
        kind_.functor.functions.push_back({result, name, std::move(parameters), std::move(body)});
    }

    /// Statements that split a row-major position into coordinates i<first>, …, whose names go to `names`.
    static std::vector<std::string> unravelled(const std::string& position, const Shape& shape,
                                               std::size_t first, std::vector<std::string>& names) {
        std::vector<std::string> lines;
        const Shape strides = row_major_strides(shape);
        const auto outer = static_cast<std::size_t>(
            std::find_if(shape.begin(), shape.end(), [](std::int64_t extent) { return extent != 1; }) -
            shape.begin());
        for (std::size_t d = 0; d < shape.size(); ++d) {
            if (shape[d] == 1) {
                names.emplace_back("0");
                continue;
            }
            std::string digit = strides[d] == 1 ? position : fmt::format("{} / {}", position, strides[d]);
            if (d != outer) digit += fmt::format(" % {}", shape[d]);
            names.push_back(fmt::format("i{}", first + d));
            lines.push_back(fmt::format("const I32 {} = {};", names.back(), digit));
        }
        return lines;
    }

    std::vector<std::string> returned(const Expr& expr, Scope scope, DType type,
                                      std::vector<std::string> lines) {
        Statements body(pointers_, std::move(scope));
        for (std::string& line : lines) body.add(std::move(line));
        const std::string result = body.evaluate(expr).back();
        body.add(fmt::format("return {};", converted(result, expr.type(), type)));
        return body.take();
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

    void add_prologue(const MatMulRegion& region, DType acc) {
        const Scope scope{{coordinate("b", region.space[0]), coordinate("m", region.space[1]), "0",
                           coordinate("k", region.space[3])},
                          "sum",
                          acc};
        const std::vector<CudaMember> at{{"I32", "b", ""},
                                         {"I32", "m", ""},
                                         {"I32", "k", ""},
                                         {"const Acc*", "stat", ""},
                                         {"const LeftEarly&", "early", ""}};
        CudaStruct early{"LeftEarly", {}, {}};
        Statements loads(pointers_, scope);
        std::string values;
        // `a` is rounded when it is staged, in the type of the staged elements.
        const DType wide = is_narrow_float(region.a_type) ? DType::F32 : region.a_type;
        for (std::size_t j = 0; j < region.stats.size(); ++j) {
            const CudaMember which{fmt::format("Number<{}>", j), "", ""};
            Statements term(pointers_, scope);
            const Statements::Known known = known_early(loads, region.stats[j].term, early, values);
            const std::string value = term.evaluate(region.stats[j].term, known).back();
            term.add(fmt::format("return {};", converted(value, region.stats[j].term.type(), acc)));
            add_function("Acc", "stat_term", {which, at[0], at[1], at[2], at[3], at[4]}, term.take());
            Scope finish = scope;
            finish.coordinates[3] = "0";
            add_function("Acc", "stat_finish", {which, at[0], at[1], {"Acc", "sum", ""}, at[3]},
                         returned(region.stats[j].finish, finish, acc, {}));
        }
        Statements body(pointers_, scope);
        const Statements::Known known = known_early(loads, region.a, early, values);
        loads.add(fmt::format("return {{{}}};", values));
        add_function("LeftEarly", "load_left", {at[0], at[1], at[2]}, loads.take());
        const std::string result = body.evaluate(region.a, known).back();
        body.add(fmt::format("return {};", converted(result, region.a.type(), wide)));
        add_function("Acc", "left", {at[0], at[1], at[2], at[3], at[4]}, body.take());
        kind_.functor.structs.push_back(std::move(early));
    }

    /// Makes the early loads of `expr` members of `early`, whose initializers are added to `values`.
    static Statements::Known known_early(Statements& loads, const Expr& expr, CudaStruct& early,
                                         std::string& values) {
        Statements::Known known;
        for (const Statements::EarlyLoad& load : loads.early_loads(expr)) {
            auto found = std::find_if(early.members.begin(), early.members.end(),
                                      [&](const CudaMember& member) { return member.value == load.value; });
            if (found == early.members.end()) {
                const std::string member = fmt::format("e{}", early.members.size());
                found = early.members.insert(found, {load.type, member, load.value});
                if (load.words) early.words.push_back({member, *load.words});
                values += (values.empty() ? "" : ", ") + load.value;
            }
            const std::string kept = "early." + found->name;
            known[load.node] =
                load.words ? converted(kept + ".value()", load.element, expr.nodes[load.node].type) : kept;
        }
        return known;
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

    /// Splits the stores in two functions, so that what they load is on its way together, and before the results of the
    /// main loop are there: load(at) and store(at, results, early), which both begin with `lines`.
    void add_stores(const std::vector<Store>& list, const Scope& scope, const std::vector<std::string>& lines,
                    std::vector<CudaMember> at, const std::vector<CudaMember>& results) {
        CudaStruct early{"Early", {}, {}};
        std::string values;
        Statements loads(pointers_, scope);
        Statements body(pointers_, scope);
        for (const std::string& line : lines) {
            loads.add(line);
            body.add(line);
        }
        for (const Store& store : list) {
            body.store(store, known_early(loads, store.expr, early, values));
        }
        loads.add(fmt::format("return {{{}}};", values));
        add_function("Early", "load", at, loads.take());
        at.insert(at.end(), results.begin(), results.end());
        at.push_back({"const Early&", "early", ""});
        add_function("void", "store", std::move(at), body.take());
        kind_.functor.structs.push_back(std::move(early));
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

    CudaKind finished() {
        for (std::size_t slot : pointers_.used()) {
            const Buffer& buffer = pointers_.buffer(slot);
            const std::string element = element_name(buffer.dtype);
            kind_.functor.pointers.push_back({buffer.tagged ? fmt::format("Tagged<{}>", element) : element,
                                              fmt::format("p{}", slot), fmt::format("{}", slot)});
            kind_.functor.words |= buffer.tagged;
        }
        return std::move(kind_);
    }

    Pointers pointers_;
    CudaKind kind_;
};

}  // namespace

CudaKind kind_of(const RegionGraph& graph, const Region& region) {
    return std::visit(KindBuilder(graph, region), region.body);
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
