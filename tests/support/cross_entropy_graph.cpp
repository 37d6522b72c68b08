#include "support/cross_entropy_graph.h"

#include <algorithm>

#include "base/rounding.h"
#include "graph/builder.h"

namespace stretto {
namespace {

Tensor number(GraphBuilder& b, double value) { return b.full({}, value, DType::F32); }

/// softmax - (1 - smoothing) * one-hot - smoothing / columns, for each row its share of the mean.
Tensor gradient(GraphBuilder& b, const CrossEntropy& of, const Tensor& logarithms, const Tensor& place,
                const Tensor& share) {
    const Tensor columns = b.arange(of.columns, 0, 1, DType::I64);
    const Tensor hit = b.apply(Op::Eq, {columns, b.unsqueeze(place, 1)}, DType::Bool);
    const double rest = of.smoothing / static_cast<double>(of.columns);
    const Tensor wanted =
        b.apply(Op::Select, {hit, number(b, 1 - of.smoothing + rest), number(b, rest)}, DType::F32);
    const Tensor softmax = b.apply(Op::Exp, {logarithms}, DType::F32);
    const Tensor difference = b.apply(Op::Sub, {softmax, wanted}, DType::F32);
    return b.apply(Op::Mul, {difference, b.unsqueeze(share, 1)}, DType::F32);
}

}  // namespace

Graph cross_entropy_graph(const CrossEntropy& of) {
    GraphBuilder b;
    const Tensor h = b.input(Role::User, "h", of.type, {of.rows, of.hidden});
    const Tensor labels = b.input(Role::User, "labels", DType::I64, {of.rows});
    const Tensor w = b.input(Role::Parameter, "w", of.type, {of.columns, of.hidden});
    std::optional<Tensor> bias;
    if (of.biased) bias = b.input(Role::Parameter, "bias", of.type, {of.columns});

    Tensor x = b.cast(b.linear(h, w, bias), DType::F32);
    Tensor slope;
    if (of.cap != 0) {
        const Tensor t =
            b.apply(Op::Tanh, {b.apply(Op::Div, {x, number(b, of.cap)}, DType::F32)}, DType::F32);
        const Tensor square = b.apply(Op::Mul, {t, t}, DType::F32);
        slope = b.apply(Op::Sub, {number(b, 1), square}, DType::F32);
        x = b.apply(Op::Mul, {t, number(b, of.cap)}, DType::F32);
    }
    const Tensor largest = b.reduce(ReduceOp::Max, x, {1}, true, DType::F32);
    const Tensor below = b.apply(Op::Sub, {x, largest}, DType::F32);
    const Tensor sum = b.reduce(ReduceOp::Sum, b.apply(Op::Exp, {below}, DType::F32), {1}, true, DType::F32);
    const Tensor logarithms = b.apply(Op::Sub, {below, b.apply(Op::Log, {sum}, DType::F32)}, DType::F32);

    const Tensor valid = b.apply(Op::Ne, {labels, b.full({}, -100, DType::I64)}, DType::Bool);
    const Tensor place = b.apply(Op::Select, {valid, labels, b.full({}, 0, DType::I64)}, DType::I64);
    const Tensor count = b.cast(b.reduce(ReduceOp::Sum, valid, {0}, false, DType::I64), DType::F32);
    const Tensor share = b.apply(
        Op::Select, {valid, b.apply(Op::Div, {number(b, 1), count}, DType::F32), number(b, 0)}, DType::F32);
    Tensor likely = b.squeeze(b.gather(logarithms, 1, b.unsqueeze(place, 1)), 1);
    if (of.smoothing != 0) {
        const Tensor all = b.reduce(ReduceOp::Sum, logarithms, {1}, false, DType::F32);
        const double rest = of.smoothing / static_cast<double>(of.columns);
        likely = b.apply(Op::Add,
                         {b.apply(Op::Mul, {likely, number(b, 1 - of.smoothing)}, DType::F32),
                          b.apply(Op::Mul, {all, number(b, rest)}, DType::F32)},
                         DType::F32);
    }
    const Tensor losses = b.apply(Op::Neg, {b.apply(Op::Mul, {likely, share}, DType::F32)}, DType::F32);
    b.output(b.reduce(ReduceOp::Sum, losses, {0}, false, DType::F32), "loss");

    Tensor g = gradient(b, of, logarithms, place, share);
    if (of.cap != 0) g = b.apply(Op::Mul, {g, slope}, DType::F32);
    g = b.cast(g, of.type);
    b.output(b.matmul(g, w), "dh");
    b.output(b.matmul(b.transpose(g, 0, 1), h), "dw");
    if (of.biased) b.output(b.reduce(ReduceOp::Sum, g, {0}, false, of.type), "db");
    return b.finish();
}

std::map<std::string, Elements> cross_entropy_inputs(const CrossEntropy& of, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> number(-1, 1);
    std::uniform_int_distribution<std::int64_t> column(0, of.columns - 1);
    std::map<std::string, Elements> inputs;
    const auto fill = [&](const std::string& name, std::int64_t count) {
        Elements& elements = inputs[name];
        elements.resize(static_cast<std::size_t>(count));
        for (double& element : elements) element = rounded(number(random), of.type);
    };
    fill("h", of.rows * of.hidden);
    fill("w", of.columns * of.hidden);
    if (of.biased) fill("bias", of.columns);
    Elements& labels = inputs["labels"];
    for (std::int64_t row = 0; row < of.rows; ++row)
        labels.push_back(row % 5 == 2 ? -100 : static_cast<double>(column(random)));
    labels.front() = 0;
    labels.back() = static_cast<double>(of.columns - 1);
    return inputs;
}

}  // namespace stretto
