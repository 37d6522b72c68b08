#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace stretto {

/// How the results of one product [1, rows, columns, depth] are used, where in_one_pass can do without them.
class ProductUse {
public:
    enum class Role : std::uint8_t {
        Other,
        Product,
        Anew,  ///< element-wise values of the results, and reductions of parts of rows: nobody else reads them
        Maximum,  ///< each row's largest result
        Total,    ///< each row's sum of exponentials of the results less the maximum
        Mix,      ///< the second product with the matrix
        Single,   ///< element-wise values of few results
    };
    /// Source of the mixes [rows, depth] in `mix`: each row's sum over columns of exp(result - maximum) times the matrix's row.
    static constexpr std::int32_t kMixed = -1;

    ProductUse(const Graph& graph, ValueId product);

    /// Can it be done? The functions below require that.
    [[nodiscard]] bool fits();

    [[nodiscard]] const Contract& product() const { return product_; }
    [[nodiscard]] Role role(ValueId id) const { return roles_[id.index()]; }
    [[nodiscard]] ValueId maximum() const { return maximum_; }
    /// The value of a Mix, over [1, rows, depth].
    [[nodiscard]] const Expr& mix(ValueId id) const { return expressions_.at(id); }
    /// The value of a Single, from results that `is_result`.
    [[nodiscard]] const Expr& single(ValueId id) const { return expressions_.at(id); }
    /// Does the node load a result of the product?
    [[nodiscard]] bool is_result(const Expr& expr, std::size_t node) const;

    /// An element that takes some of the indirect coordinates of a result.
    struct Operand {
        Access access;
        std::vector<std::size_t> args;
    };
    /// The elements of both operands whose products make up a result: `result` is a load of it over coordinates of which the
    /// last one is that of depth. Nothing where no map says which they are.
    [[nodiscard]] std::optional<std::pair<Operand, Operand>> operands_of(const Access& result) const;

private:
    [[nodiscard]] std::int64_t rows() const { return product_.space[1]; }
    [[nodiscard]] std::int64_t columns() const { return product_.space[2]; }
    [[nodiscard]] bool is_unstored(std::int32_t source) const;
    [[nodiscard]] bool is_wide(const Node& node) const;
    [[nodiscard]] bool has_plain_operands() const;
    [[nodiscard]] bool reads_unstored(const Expr& expr) const;
    [[nodiscard]] std::optional<Expr> expanded(Expr expr) const;
    [[nodiscard]] std::optional<Role> role_of(std::size_t node);
    [[nodiscard]] std::optional<Role> role_of_reduction(ValueId id, const Reduce& reduce);
    [[nodiscard]] bool is_exponential_less_maximum(const Expr& term, const Shape& space) const;
    [[nodiscard]] bool is_whole(const Access& access, const Shape& space) const;
    [[nodiscard]] bool take_single(ValueId id, const Pointwise& op);
    [[nodiscard]] bool take_mix(ValueId id, const Contract& contract);

    const Graph& graph_;
    ValueId id_;
    const Contract& product_;
    std::vector<Role> roles_;
    std::map<std::int32_t, ReduceOp> partial_;  ///< reductions of parts of rows
    ValueId maximum_;
    std::map<ValueId, Expr> expressions_;
};

}  // namespace stretto
