#include "emit/attention_kind.h"

#include <fmt/format.h>

#include "emit/cuda_types.h"
#include "emit/functor_writer.h"

namespace stretto {
namespace {

class AttentionKind : FunctorWriter {
public:
    AttentionKind(const RegionGraph& graph, const Region& region) : FunctorWriter(graph, region) {}

    CudaKind run(const RegionGraph& graph, const AttentionRegion& region) {
        const auto& [batch, heads, queries, context, depth] = region.space;
        const bool tensor = on_tensor_cores(region);
        const bool tied = reads_rows_once(region);
        kind_.task_template = tensor ? "AttentionMma" : tied ? "AttentionTied" : "Attention";
        if (tensor || tied) alias("Element", element_name(region.key.type));
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
        if (tied) {
            const BufferRole role = graph[BufferId(region.key.source)].role;
            const bool written = role != BufferRole::Parameter && role != BufferRole::Constant;
            kind_.functor.constants.push_back(flag("kConstant", !written));
            add_function("const Element*", "key_at", {b, h, s}, row_address(region.key, at));
        } else if (tensor) {
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
};

}  // namespace

CudaKind attention_kind(const RegionGraph& graph, const Region& region) {
    return AttentionKind(graph, region).run(graph, std::get<AttentionRegion>(region.body));
}

}  // namespace stretto
