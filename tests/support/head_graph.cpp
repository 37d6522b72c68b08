#include "support/head_graph.h"

namespace stretto {

Graph head_gradients(const HeadGraph& head) {
    GraphBuilder b;
    const Tensor h = b.input(Role::User, "h", head.type, {head.rows, head.depth});
    const Tensor w = b.input(Role::Parameter, "w", head.type, {head.columns, head.depth});
    const Tensor target = b.unsqueeze(b.input(Role::User, "target", DType::I64, {head.rows}), 1);
    const Tensor scale = b.unsqueeze(b.input(Role::User, "scale", DType::F32, {head.rows}), 1);
    const auto f32 = [&](Op op, const std::vector<Tensor>& operands) {
        return b.apply(op, operands, DType::F32);
    };
    const Tensor logits = b.cast(b.linear(h, w, std::nullopt), DType::F32);
    const Tensor less = f32(Op::Sub, {logits, b.reduce(ReduceOp::Max, logits, {1}, true, DType::F32)});
    const Tensor total = b.reduce(ReduceOp::Sum, f32(Op::Exp, {less}), {1}, true, DType::F32);
    const Tensor logarithms = f32(Op::Sub, {less, f32(Op::Log, {total})});
    b.output(b.squeeze(f32(Op::Neg, {b.gather(logarithms, 1, target)}), 1), "loss");

    const Tensor column = b.arange(head.columns, 0, 1, DType::I64);
    const Tensor is_target = b.apply(Op::Eq, {column, target}, DType::Bool);
    const Tensor minus = b.full({1}, -1, DType::F32), zero = b.full({1}, 0, DType::F32);
    const Tensor of_target = f32(Op::Mul, {f32(Op::Select, {is_target, minus, zero}), scale});
    const Tensor sum = b.reduce(ReduceOp::Sum, of_target, {1}, true, DType::F32);
    const Tensor of_all = f32(Op::Mul, {f32(Op::Exp, {logarithms}), sum});
    const Tensor of_logits = b.cast(f32(Op::Sub, {of_target, of_all}), head.type);
    b.output(b.matmul(of_logits, w), "gradient");
    if (head.trained) b.output(b.matmul(b.transpose(of_logits, 0, 1), h), "weight gradient");
    return b.finish();
}

}  // namespace stretto
