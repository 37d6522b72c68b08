#include "emit/scored_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/functor_writer.h"
#include "fuse/groups.h"
#include "fuse/product_operand.h"

namespace stretto {
namespace {

constexpr std::size_t kRow = 1;
constexpr std::size_t kColumn = 2;
constexpr std::size_t kContext = 3;
constexpr std::size_t kDepth = 4;

PlainOperand lies(const Access& access, std::size_t row, std::size_t depth) {
    const auto operand = plain_operand(access, row, depth);
    ensure(operand.has_value(), "a sum over scores has an operand that is not plain");
    return *operand;
}

const char* combine_of(ReduceOp op) {
    return op == ReduceOp::Sum ? "SumOf" : op == ReduceOp::Max ? "MaxOf" : "MinOf";
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
                                   constant("kDepth", region_.space[kDepth]),
                                   constant("kColumns", region_.factor ? region_.space[kColumn] : 0),
                                   constant("kContext", region_.space[kContext]),
                                   constant("kStages", region_.tile.stages),
                                   flag("kSoftmax", region_.softmax),
                                   constant("kBandBegin", region_.band.begin),
                                   constant("kBandEnd", region_.band.end)};
        add_sides("kLeftColumns", "kLeftGrain", "left_at", &Score::left, kRow);
        add_sides("kRightColumns", "kRightGrain", "right_at", &Score::right, kContext);
        add_factor();
        const std::string b = coordinate("b", region_.space[0]);
        const CudaMember at_b{"I32", "b", ""}, r{"I32", "r", ""}, c{"I32", "c", ""};
        // Weights are rounded to 16 bits, or summed with as many others as there are positions.
        const Scope pair{{b, "r", "0", "c", "0"}, "acc[{}]", DType::F32, true};
        add_function("float", "weight", {at_b, r, c, {"const float*", "acc", ""}},
                     returned(region_.weight, pair, DType::F32, {}));
        const Place place{
            {{b, "r", coordinate("n", region_.space[kColumn]), "0", "0"}, "acc[{}]", DType::F32},
            {},
            {at_b, r, {"I32", "n", ""}},
            {{"const Acc*", "acc", ""}}};
        add_stores(region_.stores, place);
        add_vector_stores(region_.stores, place, kColumn,
                          group_length(graph, region_.stores, kColumn, region_.space[kColumn], false));
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
            const PlainOperand operand = lies(access, row, kDepth);
            if (operand.column) column_bits |= std::int64_t{1} << j;
            least = j == 0 ? operand.grain : std::min(least, operand.grain);
            add_address(at, access, {{fmt::format("Number<{}>", j), "", ""}}, row == kRow ? "r" : "c", "e");
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

    void add_factor() {
        const PlainOperand operand =
            region_.factor ? lies(*region_.factor, kColumn, kContext) : PlainOperand{};
        kind_.functor.constants.push_back(flag("kFactorColumn", operand.column));
        kind_.functor.constants.push_back(constant("kFactorGrain", operand.grain));
        if (region_.factor) add_address("factor_at", *region_.factor, {}, "n", "c");
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
