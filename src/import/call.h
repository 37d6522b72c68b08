#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/builder.h"
#include "import/schema.h"

namespace stretto {

using TensorMap = std::unordered_map<std::string, Tensor>;

/// One operation of the program, ready to be lowered: its arguments by name (so that the order and the number of a
/// schema's arguments do not matter) and the types of its results. Every accessor throws UserError naming the
/// operation, its module and the argument.
class Call {
public:
    Call(GraphBuilder& builder, const schema::Node& node, const schema::Program& program,
         const TensorMap& tensors)
        : b(builder), node_(node), program_(program), tensors_(tensors) {}

    GraphBuilder& b;

    [[nodiscard]] const std::string& op() const { return node_.op; }
    [[nodiscard]] bool has(std::string_view name) const;  ///< Given, and not None.
    [[nodiscard]] bool is_tensor(std::string_view name) const;

    [[nodiscard]] Tensor tensor(std::string_view name) const;
    [[nodiscard]] std::optional<Tensor> optional_tensor(std::string_view name) const;
    [[nodiscard]] std::vector<Tensor> tensors(std::string_view name) const;
    [[nodiscard]] std::vector<std::optional<Tensor>> optional_tensors(std::string_view name) const;
    [[nodiscard]] std::int64_t integer(std::string_view name) const;
    [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
    [[nodiscard]] int dim(std::string_view name) const;
    [[nodiscard]] int dim(std::string_view name, int otherwise) const;
    [[nodiscard]] std::vector<std::int64_t> integers(
        std::string_view name) const;                                  ///< Also from one integer.
    [[nodiscard]] std::vector<int> dims(std::string_view name) const;  ///< Empty where not given.
    [[nodiscard]] double number(std::string_view name) const;          ///< Integers and flags, too.
    [[nodiscard]] double number(std::string_view name, double otherwise) const;
    [[nodiscard]] bool is_integral(std::string_view name) const;  ///< An integer or a flag.
    [[nodiscard]] bool flag(std::string_view name, bool otherwise) const;
    [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;

    // Results, as PyTorch typed them.
    [[nodiscard]] std::size_t result_count() const { return node_.outputs.size(); }
    [[nodiscard]] DType dtype(std::size_t result = 0) const;
    [[nodiscard]] Shape shape(std::size_t result = 0) const;

    [[noreturn]] void fail(std::string_view problem) const;

private:
    [[nodiscard]] const schema::Argument* find(std::string_view name) const;
    [[nodiscard]] const schema::Argument& need(std::string_view name) const;
    [[noreturn]] void wrong(std::string_view name, std::string_view expected) const;
    [[nodiscard]] Tensor bound(const schema::TensorName& name) const;
    [[nodiscard]] const schema::TensorMeta& meta(std::size_t result) const;

    const schema::Node& node_;
    const schema::Program& program_;
    const TensorMap& tensors_;
};

/// Builds a call's results, in order. Results that are left out at the end are not supported: using one is an error.
using Lowering = std::function<std::vector<Tensor>(Call&)>;

/// A row of a table: an operation without its overload, e.g. "aten.mul", and what it means.
struct LoweringRow {
    std::string_view op;
    Lowering lower;
};
using LoweringTable = std::vector<LoweringRow>;

[[nodiscard]] const LoweringTable& pointwise_lowerings();
[[nodiscard]] const LoweringTable& view_lowerings();
[[nodiscard]] const LoweringTable& reduction_lowerings();
[[nodiscard]] const LoweringTable& order_lowerings();
[[nodiscard]] const LoweringTable& product_lowerings();
[[nodiscard]] const LoweringTable& creation_lowerings();
[[nodiscard]] const LoweringTable& indexing_lowerings();

}  // namespace stretto
