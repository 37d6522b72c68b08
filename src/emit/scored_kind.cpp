#include "emit/scored_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "fuse/groups.h"
#include "fuse/product_operand.h"
#include "fuse/scored.h"
#include "fuse/scored_weights.h"
#include "graph/index_groups.h"

namespace stretto {
namespace {

PlainOperand lies(const Access& access, std::size_t row, std::size_t depth) {
    const auto operand = plain_operand(access, row, depth);
    ensure(operand.has_value(), "a sum over scores has an operand that is not plain");
    return *operand;
}

class ScoredKind : FunctorWriter {
public:
    ScoredKind(const RegionGraph& graph, const Region& region)
        : FunctorWriter(graph, region), region_(std::get<ScoredRegion>(region.body)) {}

    CudaKind run(const RegionGraph& graph) {
        kind_.task_template = "Scored";
        alias("Acc", cuda_name(domain_of(DType::F32)));
        alias("Element", element_name(region_.scores.front().left.type));
        alias("Combine", combine_of(region_.op));
        kind_.functor.constants = {constant("kRows", region_.tile.rows),
                                   constant("kScores", static_cast<std::int64_t>(region_.scores.size())),
                                   constant("kSums", static_cast<std::int64_t>(region_.sums.size())),
                                   constant("kDepth", region_.space[kScoredDepth]),
                                   constant("kColumns", scored_shape(region_).columns),
                                   constant("kContext", region_.space[kScoredContext]),
                                   constant("kStages", region_.tile.stages),
                                   flag("kSoftmax", region_.softmax),
                                   constant("kBandBegin", region_.band.begin),
                                   constant("kBandEnd", region_.band.end)};
        add_sides("kLeftColumns", "kLeftGrain", "left_at", &Score::left, kScoredRow);
        add_sides("kRightColumns", "kRightGrain", "right_at", &Score::right, kScoredContext);
        add_factors();
        add_weights();
        const std::string b = coordinate("b", region_.space[0]);
        const CudaMember at_b{"I32", "b", ""}, r{"I32", "r", ""};
        const Place place{
            {{b, "r", coordinate("n", region_.space[kScoredColumn]), "0", "0"}, "acc[{}]", DType::F32},
            {},
            {at_b, r, {"I32", "n", ""}},
            {{"const Acc*", "acc", ""}}};
        add_stores(region_.stores, place);
        add_vector_stores(
            region_.stores, place, kScoredColumn,
            group_length(graph, region_.stores, kScoredColumn, region_.space[kScoredColumn], false));
        add_row_stores();
        return finished();
    }

private:
    void add_sides(const char* columns, const char* grain, const char* at, Access Score::*side,
                   std::size_t row) {
        std::int64_t column_bits = 0;
        std::int64_t least = 0;
        for (std::size_t j = 0; j < region_.scores.size(); ++j) {
            const Access& access = region_.scores[j].*side;
            const PlainOperand operand = lies(access, row, kScoredDepth);
            if (operand.column) column_bits |= std::int64_t{1} << j;
            least = j == 0 ? operand.grain : std::min(least, operand.grain);
            add_address(at, access, {{fmt::format("Number<{}>", j), "", ""}}, row == kScoredRow ? "r" : "c",
                        "e");
        }
        kind_.functor.constants.push_back(constant(columns, column_bits));
        kind_.functor.constants.push_back(constant(grain, least));
    }

    void add_row_stores() {
        Statements body(pointers_,
                        {{coordinate("b", region_.space[0]), "r", "0", "0", "0"}, "acc[{}]", DType::F32});
        for (const Store& store : region_.row_stores) body.store(store);
        add_function("void", "store_row", {{"I32", "b", ""}, {"I32", "r", ""}, {"const Acc*", "acc", ""}},
                     body.take());
    }

    /// What weights have of values that all positions of a row, or all rows of a position, share.
    struct Shared {
        CudaStruct members;
        Statements body;
        std::string values;
        std::size_t other;  ///< the dimension along which they are the same
    };

    void add_weights() {
        const ScoredWeights all = quick_weights(region_, false);
        ScoredWeights within = quick_weights(region_, true);
        kind_.functor.constants.push_back(flag("kMasked", !(all.expr == within.expr)));
        const auto softmax_of = scaled_score(within.expr, within.nodes.front());
        const bool plain = region_.softmax && softmax_of && softmax_of->second > 0;
        kind_.functor.constants.push_back(
            {"float", "kFactor", literal(plain ? softmax_of->second : 0, DType::F32)});
        if (plain) {
            within.expr = {};
            within.nodes = {within.expr.acc(static_cast<int>(softmax_of->first))};
        }
        // Weights are rounded to 16 bits, or summed with as many others as there are positions.
        const Scope pair{
            {coordinate("b", region_.space[0]), "r", "0", "c", "0"}, "acc[{}]", DType::F32, Quick::Quotients};
        Shared row{{"Row", {}, {}}, {pointers_, pair}, {}, kScoredContext};
        Shared position{{"Position", {}, {}}, {pointers_, pair}, {}, kScoredRow};
        const CudaMember b{"I32", "b", ""}, r{"I32", "r", ""}, c{"I32", "c", ""};
        for (const auto& [name, weights] : {std::pair{"weights", &all}, {"weights_within", &within}}) {
            Statements::Known known = shared(weights->expr, row, "row");
            known.merge(shared(weights->expr, position, "position"));
            take_differences(weights->expr, known);
            add_function("void", name,
                         {b,
                          r,
                          c,
                          {"const Row&", "row", ""},
                          {"const Position&", "position", ""},
                          {"const float*", "acc", ""},
                          {"float*", "weights", ""}},
                         evaluated(*weights, pair, known));
        }
        add_shared(std::move(row), "row_values", {b, r});
        add_shared(std::move(position), "position_values", {b, c});
    }

    static Statements::Known shared(const Expr& expr, Shared& of, const std::string& name) {
        return known_shared(of.body, expr, of.members, of.values, name, [&](const IndexMap& map) {
            return !map.masked() && !moves_along(map, of.other);
        });
    }

    void add_shared(Shared of, const char* name, std::vector<CudaMember> at) {
        of.body.add(fmt::format("return {{{}}};", of.values));
        add_function(of.members.name.c_str(), name, std::move(at), of.body.take());
        kind_.functor.structs.push_back(std::move(of.members));
    }

    std::vector<std::string> evaluated(const ScoredWeights& weights, const Scope& pair,
                                       const Statements::Known& known) {
        Statements body(pointers_, pair);
        const std::vector<std::string> variables = body.evaluate(weights.expr, known);
        for (std::size_t s = 0; s < weights.nodes.size(); ++s) {
            const auto node = static_cast<std::size_t>(weights.nodes[s]);
            const DType type = weights.expr.nodes[node].type;
            body.add(fmt::format("weights[{}] = {};", s, converted(variables[node], type, DType::F32)));
        }
        return body.take();
    }

    /// A score times a constant less a value that rows or positions share is one instruction, its exponential two.
    static void take_differences(const Expr& expr, Statements::Known& known) {
        const auto node = [&](std::int32_t i) -> const ExprNode& {
            return expr.nodes[static_cast<std::size_t>(i)];
        };
        for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
            const bool exponential = expr.nodes[i].op == Op::Exp;
            if (expr.nodes[i].type != DType::F32) continue;
            const ExprNode& difference = exponential ? node(expr.nodes[i].args[0]) : expr.nodes[i];
            if (difference.op != Op::Sub || difference.type != DType::F32) continue;
            const auto less = known.find(static_cast<std::size_t>(difference.args[1]));
            if (less == known.end() || node(difference.args[1]).type != DType::F32) continue;
            const auto score = scaled_score(expr, difference.args[0]);
            if (!score) continue;
            const char* text =
                exponential ? "quick_exponential(acc[{}], {}, {})" : "__fmaf_rn(acc[{}], {}, -{})";
            known[i] = fmt::format(fmt::runtime(text), score->first, literal(score->second, DType::F32),
                                   less->second);
        }
    }

    /// A score times a constant: its number, and the constant.
    static std::optional<std::pair<std::int64_t, double>> scaled_score(const Expr& expr, std::int32_t i) {
        const ExprNode& node = expr.nodes[static_cast<std::size_t>(i)];
        if (node.type != DType::F32) return std::nullopt;
        if (node.op == Op::Acc) return std::pair{node.integer, 1.0};
        if (node.op != Op::Mul) return std::nullopt;
        for (const bool second : {false, true}) {
            const ExprNode& a = expr.nodes[static_cast<std::size_t>(node.args[second ? 1 : 0])];
            const ExprNode& k = expr.nodes[static_cast<std::size_t>(node.args[second ? 0 : 1])];
            if (a.op == Op::Acc && a.type == DType::F32 && k.op == Op::Const && k.type == DType::F32)
                return std::pair{a.integer, k.value};
        }
        return std::nullopt;
    }

    /// A factor that is a score's right side is read as that is staged.
    void add_factors() {
        std::int64_t column_bits = 0;
        std::int64_t scores = 0;
        std::int64_t least = 0;
        for (std::size_t s = 0; s < region_.sums.size(); ++s) {
            const auto& factor = region_.sums[s].factor;
            if (!factor) continue;
            PlainOperand operand = lies(*factor, kScoredColumn, kScoredContext);
            if (const auto score = staged_as(region_, *factor)) {
                operand.column = !lies(region_.scores[*score].right, kScoredContext, kScoredDepth).column;
                scores |= static_cast<std::int64_t>(*score + 1) << (4 * s);
            } else {
                least = least == 0 ? operand.grain : std::min(least, operand.grain);
                add_address("factor_at", *factor, {{fmt::format("Number<{}>", s), "", ""}}, "n", "c");
            }
            if (operand.column) column_bits |= std::int64_t{1} << s;
        }
        kind_.functor.constants.push_back(constant("kFactorColumns", column_bits));
        kind_.functor.constants.push_back(constant("kFactorScores", scores));
        kind_.functor.constants.push_back(constant("kFactorGrain", std::max<std::int64_t>(least, 1)));
    }

    /// name(..., b, row, depth): the address of an operand's element; its coordinates are named as in the region.
    void add_address(const char* name, const Access& access, std::vector<CudaMember> parameters,
                     const char* row, const char* depth) {
        Statements body(pointers_, {{coordinate("b", region_.space[0]), "r", "n", "c", "e"}, "", DType::F32});
        body.add(fmt::format("return {};", body.address(access)));
        parameters.push_back({"I32", "b", ""});
        parameters.push_back({"I32", row, ""});
        parameters.push_back({"I32", depth, ""});
        add_function("const Element*", name, std::move(parameters), body.take());
    }

    const ScoredRegion& region_;
};

}  // namespace

CudaKind scored_kind(const RegionGraph& graph, const Region& region) {
    return ScoredKind(graph, region).run(graph);
}

}  // namespace stretto
