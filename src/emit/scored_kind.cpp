#include "emit/scored_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "fuse/groups.h"
#include "fuse/product_operand.h"
#include "fuse/scored.h"

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
        const std::string b = coordinate("b", region_.space[0]);
        const CudaMember at_b{"I32", "b", ""}, r{"I32", "r", ""}, c{"I32", "c", ""};
        // Weights are rounded to 16 bits, or summed with as many others as there are positions.
        const Scope pair{{b, "r", "0", "c", "0"}, "acc[{}]", DType::F32, true};
        add_function("void", "weights", {at_b, r, c, {"const float*", "acc", ""}, {"float*", "weights", ""}},
                     weights(pair));
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

    std::vector<std::string> weights(const Scope& pair) {
        Statements body(pointers_, pair);
        const ScoredWeights all = weights_of(region_);
        const std::vector<std::string> variables = body.evaluate(all.expr);
        for (std::size_t s = 0; s < all.nodes.size(); ++s) {
            const auto node = static_cast<std::size_t>(all.nodes[s]);
            const DType type = all.expr.nodes[node].type;
            body.add(fmt::format("weights[{}] = {};", s, converted(variables[node], type, DType::F32)));
        }
        return body.take();
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
