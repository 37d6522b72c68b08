#include "support/decode_graph.h"

#include <cmath>
#include <string>

#include "graph/builder.h"

namespace stretto {
namespace {

class DecodeBuilder {
public:
    explicit DecodeBuilder(const DecodeSizes& sizes) : s_(sizes) {}

    Graph build() {
        const Tensor ids = b_.input(Role::User, "input_ids", DType::I64, {s_.batch, 1});
        position_ = b_.input(Role::User, "position", DType::I64, {1});
        const Tensor embedding = parameter("embed.weight", {s_.vocabulary, s_.hidden});
        make_rotation();
        make_mask();
        b_.at({"embed", "embedding"});
        Tensor x = b_.index(embedding, {ids});
        for (std::int64_t layer = 0; layer < s_.layers; ++layer) x = decoder_layer(x, layer);
        const Tensor last = norm(x, "norm");
        b_.at({"lm_head", "linear"});
        b_.output(b_.reshape(b_.linear(last, embedding, std::nullopt), {s_.batch, s_.vocabulary}), "logits");
        for (const auto& [state, next, name] : updates_) b_.update_state(state, next, name);
        return b_.finish();
    }

private:
    struct StateUpdate {
        Tensor state;
        Tensor next;
        std::string name;
    };

    Tensor parameter(const std::string& name, Shape shape) {
        return b_.input(Role::Parameter, name, DType::BF16, std::move(shape));
    }

    Tensor product(const Tensor& x, const std::string& name, std::int64_t outputs) {
        b_.at({name, "linear"});
        return b_.linear(x, parameter(name + ".weight", {outputs, x.shape().back()}), std::nullopt);
    }

    void make_rotation() {
        b_.at({"rotary", "frequencies"});
        const std::int64_t half = s_.head / 2;
        const Tensor number = b_.arange(half, 0, 1, DType::F32);
        const double step = -2.0 * std::log(10'000.0) / static_cast<double>(s_.head);
        const Tensor scaled = b_.apply(Op::Mul, {number, b_.full({half}, step, DType::F32)}, DType::F32);
        const Tensor frequency = b_.apply(Op::Exp, {scaled}, DType::F32);
        const Tensor place = b_.cast(position_, DType::F32);
        const Tensor angle = b_.apply(Op::Mul, {frequency, place}, DType::F32);
        const Tensor both = b_.concat({angle, angle}, 0);
        cosine_ = b_.cast(b_.apply(Op::Cos, {both}, DType::F32), DType::BF16);
        sine_ = b_.cast(b_.apply(Op::Sin, {both}, DType::F32), DType::BF16);
    }

    void make_mask() {
        b_.at({"mask", "le"});
        const Tensor rows = b_.arange(s_.context, 0, 1, DType::I64);
        mask_ = b_.reshape(b_.apply(Op::Le, {rows, position_}, DType::Bool), {1, 1, 1, s_.context});
    }

    Tensor norm(const Tensor& x, const std::string& name) {
        b_.at({name, "rms_norm"});
        const Tensor wide = b_.cast(x, DType::F32);
        const Tensor square = b_.apply(Op::Mul, {wide, wide}, DType::F32);
        const Tensor sum = b_.reduce(ReduceOp::Sum, square, {-1}, true, DType::F32);
        const Tensor width = b_.full({1}, static_cast<double>(s_.hidden), DType::F32);
        const Tensor mean = b_.apply(Op::Div, {sum, width}, DType::F32);
        const Tensor shifted = b_.apply(Op::Add, {mean, b_.full({1}, 1e-5, DType::F32)}, DType::F32);
        const Tensor scale = b_.apply(Op::Rsqrt, {shifted}, DType::F32);
        const Tensor scaled = b_.cast(b_.apply(Op::Mul, {wide, scale}, DType::F32), DType::BF16);
        return b_.apply(Op::Mul, {parameter(name + ".weight", {s_.hidden}), scaled}, DType::BF16);
    }

    Tensor rotated(const Tensor& x) {
        const Tensor low = b_.slice(x, -1, 0, s_.head / 2);
        const Tensor high = b_.slice(x, -1, s_.head / 2, s_.head);
        const Tensor turned = b_.concat({b_.apply(Op::Neg, {high}, DType::BF16), low}, -1);
        return b_.apply(
            Op::Add,
            {b_.apply(Op::Mul, {x, cosine_}, DType::BF16), b_.apply(Op::Mul, {turned, sine_}, DType::BF16)},
            DType::BF16);
    }

    Tensor split_heads(const Tensor& x, std::int64_t heads) {
        return b_.transpose(b_.reshape(x, {s_.batch, 1, heads, s_.head}), 1, 2);
    }

    Tensor cached(const std::string& name, const Tensor& row) {
        b_.at({name, "index_put"});
        const Tensor state =
            b_.input(Role::State, name, DType::BF16, {s_.batch, s_.key_heads, s_.context, s_.head});
        const Tensor next = b_.index_put(state, {std::nullopt, std::nullopt, position_}, row);
        updates_.push_back({state, next, name});
        return next;
    }

    Tensor attention(const Tensor& x, const std::string& name, const std::string& cache) {
        const Tensor query = split_heads(product(x, name + ".q", s_.heads * s_.head), s_.heads);
        const Tensor key = split_heads(product(x, name + ".k", s_.key_heads * s_.head), s_.key_heads);
        const Tensor value = split_heads(product(x, name + ".v", s_.key_heads * s_.head), s_.key_heads);
        b_.at({name, "rotary"});
        const Tensor turned_query = rotated(query);
        const Tensor turned_key = rotated(key);
        const Tensor keys = cached(cache + ".keys", turned_key);
        const Tensor values = cached(cache + ".values", value);
        b_.at({name, "scaled_dot_product_attention"});
        const double scale = 1 / std::sqrt(static_cast<double>(s_.head));
        const Tensor mixed = b_.attention(turned_query, keys, values, mask_, false, scale);
        const Tensor joined = b_.reshape(b_.transpose(mixed, 1, 2), {s_.batch, 1, s_.heads * s_.head});
        return product(joined, name + ".o", s_.hidden);
    }

    Tensor mlp(const Tensor& x, const std::string& name) {
        const Tensor gate = product(x, name + ".gate", s_.wide);
        const Tensor up = product(x, name + ".up", s_.wide);
        b_.at({name, "silu"});
        const Tensor wide = b_.cast(gate, DType::F32);
        const Tensor open = b_.apply(Op::Sigmoid, {wide}, DType::F32);
        const Tensor silu = b_.cast(b_.apply(Op::Mul, {wide, open}, DType::F32), DType::BF16);
        return product(b_.apply(Op::Mul, {silu, up}, DType::BF16), name + ".down", s_.hidden);
    }

    Tensor decoder_layer(const Tensor& x, std::int64_t layer) {
        const std::string name = "layers." + std::to_string(layer);
        const Tensor mixed = attention(norm(x, name + ".input_norm"), name + ".attn", name);
        b_.at({name, "add"});
        const Tensor middle = b_.apply(Op::Add, {x, mixed}, DType::BF16);
        const Tensor changed = mlp(norm(middle, name + ".post_norm"), name + ".mlp");
        b_.at({name, "add"});
        return b_.apply(Op::Add, {middle, changed}, DType::BF16);
    }

    DecodeSizes s_;
    GraphBuilder b_;
    Tensor position_;
    Tensor cosine_;
    Tensor sine_;
    Tensor mask_;
    std::vector<StateUpdate> updates_;
};

}  // namespace

Graph decode_graph(const DecodeSizes& sizes) { return DecodeBuilder(sizes).build(); }

}  // namespace stretto
