#include "support/attention_graph.h"

#include "graph/builder.h"

namespace stretto {
namespace {

constexpr double kScale = 0.5;
constexpr double kKeptScale = 1.25;  ///< of one in five that is dropped

class Builder {
public:
    explicit Builder(const AttentionSizes& sizes)
        : s_(sizes), wide_(sizes.type == DType::F64 ? DType::F64 : DType::F32) {
        query_ = b_.input(Role::User, "query", s_.type, {s_.heads, s_.rows, s_.depth});
        key_ = spread(b_.input(Role::User, "key", s_.type, {s_.key_heads, s_.rows, s_.depth}));
        value_ = spread(b_.input(Role::User, "value", s_.type, {s_.key_heads, s_.rows, s_.depth}));
        gradient_ = b_.input(Role::User, "gradient", s_.type, {s_.heads, s_.rows, s_.depth});
        if (s_.dropout) kept_ = b_.input(Role::User, "kept", DType::Bool, {s_.heads, s_.rows, s_.rows});
        const Tensor row = b_.unsqueeze(b_.arange(s_.rows, 0, 1, DType::I64), 1);
        seen_ = b_.apply(Op::Le, {b_.arange(s_.rows, 0, 1, DType::I64), row}, DType::Bool);
    }

    Graph run() {
        Tensor scores = b_.cast(scaled(b_.matmul(query_, b_.transpose(key_, 1, 2)), kScale), wide_);
        if (s_.bias) {
            const Tensor bias = b_.input(Role::User, "bias", s_.type, {s_.heads, s_.rows, s_.rows});
            scores = b_.apply(Op::Add, {scores, b_.cast(bias, wide_)}, wide_);
        }
        if (s_.causal) scores = b_.apply(Op::Select, {seen_, scores, b_.full({1}, -3.4e38, wide_)}, wide_);
        const Tensor weights = b_.softmax(scores, -1, wide_);
        const Tensor dropped = with_dropout(b_.cast(weights, s_.type));
        b_.output(b_.matmul(dropped, value_), "out");

        b_.output(gathered(b_.matmul(b_.transpose(dropped, 1, 2), gradient_)), "d_value");
        const Tensor d_weights =
            b_.cast(with_dropout(b_.matmul(gradient_, b_.transpose(value_, 1, 2))), wide_);
        const Tensor product = b_.apply(Op::Mul, {d_weights, weights}, wide_);
        const Tensor sums = b_.reduce(ReduceOp::Sum, product, {2}, true, wide_);
        Tensor d_scores = b_.apply(Op::Sub, {product, b_.apply(Op::Mul, {weights, sums}, wide_)}, wide_);
        if (s_.causal) d_scores = b_.apply(Op::Select, {seen_, d_scores, b_.full({1}, 0, wide_)}, wide_);
        d_scores = scaled(b_.cast(d_scores, s_.type), kScale);
        b_.output(b_.matmul(d_scores, key_), "d_query");
        b_.output(gathered(b_.transpose(b_.matmul(b_.transpose(query_, 1, 2), d_scores), 1, 2)), "d_key");
        return b_.finish();
    }

private:
    Tensor scaled(const Tensor& x, double by) {
        return b_.apply(Op::Mul, {x, b_.full({1}, by, s_.type)}, s_.type);
    }

    Tensor with_dropout(const Tensor& x) {
        if (!s_.dropout) return x;
        return b_.apply(Op::Select, {kept_, scaled(x, kKeptScale), b_.full({1}, 0, s_.type)}, s_.type);
    }

    /// Key or value heads, each for the query heads that share it.
    Tensor spread(const Tensor& x) {
        const std::int64_t shared = s_.heads / s_.key_heads;
        const Tensor wide = b_.expand(b_.unsqueeze(x, 1), {s_.key_heads, shared, s_.rows, s_.depth});
        return b_.reshape(wide, {s_.heads, s_.rows, s_.depth});
    }

    /// The sum over the query heads that share a head.
    Tensor gathered(const Tensor& x) {
        const std::int64_t shared = s_.heads / s_.key_heads;
        if (shared == 1) return x;
        return b_.reduce(ReduceOp::Sum, b_.reshape(x, {s_.key_heads, shared, s_.rows, s_.depth}), {1}, false,
                         s_.type);
    }

    AttentionSizes s_;
    DType wide_;
    GraphBuilder b_;
    Tensor query_, key_, value_, gradient_, kept_, seen_;
};

}  // namespace

Graph attention_gradients(const AttentionSizes& sizes) { return Builder(sizes).run(); }

}  // namespace stretto
