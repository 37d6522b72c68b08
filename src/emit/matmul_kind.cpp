#include "emit/matmul_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "fuse/groups.h"
#include "fuse/left_shares.h"
#include "fuse/narrow_product.h"
#include "fuse/product_kind.h"
#include "fuse/product_operand.h"

namespace stretto {
namespace {

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

class MatMulKind : FunctorWriter {
public:
    MatMulKind(const RegionGraph& graph, const Region& region, std::int64_t warps)
        : FunctorWriter(graph, region), graph_(graph), warps_(warps) {}

    CudaKind operator()(const MatMulRegion& region) {
        const auto& [batch, rows, columns, depth] = region.space;
        ensure_small(batch * rows * depth);
        ensure_small(columns * depth);
        const abi::ProductKind product = product_kind(region);
        kind_.task_template = template_of(product);
        const DType acc = accumulator_type(region.a_type);
        alias("Acc", cuda_name(domain_of(acc)));
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
                kind_.functor.constants.push_back(flag("kConstant", has_constant_weights(region)));
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

private:
    [[nodiscard]] bool has_constant_weights(const MatMulRegion& region) const {
        return std::all_of(region.weights.begin(), region.weights.end(), [&](const Access& weight) {
            const BufferRole role = graph_.buffers.at(static_cast<std::size_t>(weight.source)).role;
            return role == BufferRole::Parameter || role == BufferRole::Constant;
        });
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
    std::int64_t warps_;  ///< consumer warps of a worker
};

}  // namespace

CudaKind matmul_kind(const RegionGraph& graph, const Region& region, std::int64_t warps) {
    return MatMulKind(graph, region, warps)(std::get<MatMulRegion>(region.body));
}

}  // namespace stretto
