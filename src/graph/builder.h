#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace stretto {

/// A tensor as a front end sees it: a view of a value. Cheap to copy; views cost nothing.
struct Tensor {
    ValueId value;
    IndexMap map;
    DType dtype = DType::F32;

    [[nodiscard]] Shape shape() const { return map.shape(); }
    [[nodiscard]] std::size_t rank() const { return map.rank(); }
};

/// A chain of comparisons is shorter than a write at places that the device computes, which needs a pass of its own.
inline constexpr std::int64_t kLongestScatterChain = 16;

/// Builds a Graph from tensor operations with PyTorch's meaning (broadcasting, negative dimensions). Views
/// become index maps; where no map expresses one, a copy is inserted. Throws UserError on shapes or types
/// that do not fit.
class GraphBuilder {
public:
    Tensor input(Role role, std::string name, DType dtype, Shape shape);
    Tensor constant(std::string name, DType dtype, Shape shape, std::vector<std::byte> bytes);
    Tensor full(Shape shape, double value, DType dtype);
    Tensor arange(std::int64_t count, double start, double step, DType dtype);

    /// Adds the nodes of an element's value to `expr`, given the nodes of its operands; returns the value's
    /// node.
    using Body = std::function<std::int32_t(Expr& expr, const std::vector<std::int32_t>& operands)>;

    // Pointwise; operands broadcast.
    Tensor pointwise(const std::vector<Tensor>& operands, DType result, const Body& body);
    Tensor apply(Op op, const std::vector<Tensor>& operands, DType result);
    Tensor cast(const Tensor& x, DType dtype);

    // Views.
    Tensor permute(const Tensor& x, std::vector<int> order);
    Tensor transpose(const Tensor& x, int a, int b);
    Tensor reshape(const Tensor& x, Shape shape);  ///< one extent may be -1
    Tensor expand(const Tensor& x, Shape shape);   ///< -1 keeps an extent
    Tensor squeeze(const Tensor& x, int dim);
    Tensor unsqueeze(const Tensor& x, int dim);
    Tensor slice(const Tensor& x, int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1);
    Tensor select(const Tensor& x, int dim, std::int64_t at);
    Tensor concat(const std::vector<Tensor>& parts, int dim);
    Tensor contiguous(const Tensor& x);  ///< the identity where x is a whole row-major value already

    /// A reduction of many elements to few is done in two stages, so that many workers share it.
    Tensor reduce(ReduceOp op, const Tensor& x, std::vector<int> dims, bool keep_dim, DType result);
    /// Positions of the largest elements along a dimension (I64), the first among equals; not a number is largest.
    Tensor argmax(const Tensor& x, int dim, bool keep_dim);
    /// Positions (I64) that sort x along a dimension; equal elements keep their order, not a number is largest.
    Tensor argsort(const Tensor& x, int dim, bool descending);
    Tensor cumsum(const Tensor& x, int dim, DType result);
    Tensor softmax(const Tensor& x, int dim, DType result);
    Tensor matmul(const Tensor& a, const Tensor& b);  ///< torch.matmul
    Tensor matmul(const Tensor& a, const Tensor& b, DType result);
    /// Products of groups, where group e ends before position ends[e] of the grouped dimension: rows of a [M, K] times
    /// b [G, K, N]; a [G, M, K] times columns of b [K, N]; or for each group its part of K of a [M, K] and b [K, N], which
    /// yields [G, M, N]. What lies behind the last group is zero.
    Tensor grouped_matmul(const Tensor& a, const Tensor& b, const Tensor& ends, DType result);
    Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias);
    /// [b, h, q, d]; key heads may be fewer (grouped). `causal`: row q sees the keys s <= q.
    Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                     bool causal, double scale);
    /// x[..., indices_0, ..., indices_n, ...] with PyTorch's advanced-indexing rules; nullopt takes a whole
    /// dim.
    Tensor index(const Tensor& x, const std::vector<std::optional<Tensor>>& indices);
    /// torch.gather: result[.., i, ..] = x[.., index[.., i, ..], ..] along `dim`.
    Tensor gather(const Tensor& x, int dim, const Tensor& index);
    /// x with x[indices] += values; several values for one element are added in an order that is always the same: that
    /// of their positions, or, where the indices are a permutation divided by a number, of the permutation's values.
    Tensor index_add(const Tensor& x, const std::vector<std::optional<Tensor>>& indices,
                     const Tensor& values);
    /// x with x[indices] = values.
    Tensor index_put(const Tensor& x, const std::vector<std::optional<Tensor>>& indices,
                     const Tensor& values);
    Tensor slice_scatter(const Tensor& x, const Tensor& values, int dim, std::int64_t begin, std::int64_t end,
                         std::int64_t step = 1);

    /// torch.scatter of few positions in each row, as comparisons: the index has the extents of x except along `dim`,
    /// where it has at most kLongestScatterChain. Among equal positions the last wins.
    Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& values);

    void output(const Tensor& x, std::string name);
    void update_state(const Tensor& state, const Tensor& next, std::string name);

    /// The operation that following calls belong to.
    void at(Source source) { source_ = std::move(source); }
    [[nodiscard]] const Graph& graph() const { return graph_; }
    [[nodiscard]] Graph finish();  ///< Checked.

private:
    /// An element of one of a pair of positions, and the position.
    struct Element {
        std::int32_t value = 0;
        std::int32_t position = 0;
    };
    using PairTerm = std::function<std::int32_t(Expr& expr, const Element& own, const Element& other)>;

    Tensor add(Node node);
    Tensor pairs(const Tensor& x, int dim, DType result, const PairTerm& term);
    /// Where the keys stand in their order along a dimension (I64); equal ones keep their order. `unique`: none are.
    Tensor counted_places(const Tensor& keys, int dim, bool descending, bool unique = false);
    /// Integers whose ascending order along the last dimension is that of the keys, followed by `padding` that come after
    /// all of them. Where the keys' range is known, position counts, too: no two are equal.
    struct Ranked {
        Tensor keys;
        bool unique = false;
    };
    Ranked ranked(const Tensor& keys, std::int64_t padding, bool descending);
    Tensor places_by_blocks(const Tensor& keys, bool descending);  ///< the same, along the last dimension
    /// The integers among which all elements of a value are.
    [[nodiscard]] std::optional<Range> range_of(ValueId value);
    /// result[.., places[.., i]] = values[.., i]; the places of a row are a permutation.
    Tensor put_at(const Tensor& places, const Tensor& values);
    [[nodiscard]] Access access(const Tensor& x) const;
    Tensor copied(const Tensor& x);
    Tensor result_value(const Tensor& x, DType dtype);
    Tensor reduction(ReduceOp op, const Tensor& x, const Shape& kept, const Shape& extents, DType result);
    Tensor contract(const Tensor& a, const Tensor& b, DType result);
    Tensor grouped_rows(const Tensor& a, const Tensor& b, const Tensor& ends, DType result);
    Tensor grouped_inner(const Tensor& a, const Tensor& b, const Tensor& ends, DType result);
    Tensor lower_bounds(const Tensor& ascending, std::int64_t count);
    Tensor matching_sum(const Tensor& x, const Tensor& rows, const Tensor& places, const Shape& strides);
    Tensor segment_sum(const Tensor& x, const Tensor& rows, const Tensor& places, const Shape& strides);
    /// Numbers that are order[i] / share, where `order` is a permutation and `inverse` its inverse.
    struct SharedPlaces {
        Tensor inverse;
        std::int64_t share = 1;
    };
    [[nodiscard]] std::optional<SharedPlaces> shared_places(const Tensor& numbers) const;
    [[nodiscard]] std::optional<SharedPlaces> shared_places(const Expr& expr, std::int32_t node) const;
    Tensor shared_sum(const Tensor& rows, const SharedPlaces& places);
    Tensor updated(const Tensor& x, Update update, const Tensor& values);
    Tensor within(const Tensor& x, const Tensor& values, int dim, std::int64_t begin, std::int64_t end);
    [[nodiscard]] std::vector<Tensor> index_tensors(const Tensor& x,
                                                    const std::vector<std::optional<Tensor>>& indices) const;
    Tensor linear_positions(const std::vector<Tensor>& given, const Shape& extents);
    [[nodiscard]] std::size_t dim_of(const Tensor& x, int dim) const;
    [[nodiscard]] Tensor broadcast(const Tensor& x, const Shape& shape) const;
    [[nodiscard]] Shape common_shape(const std::vector<Tensor>& operands) const;
    [[noreturn]] void fail(std::string_view what) const;

    Graph graph_;
    Source source_;
    std::map<ValueId, Tensor> inverses_;              ///< of the permutations that argsort gave
    std::map<ValueId, std::optional<Range>> ranges_;  ///< what `range_of` knows
};

}  // namespace stretto
