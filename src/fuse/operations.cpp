#include "fuse/operations.h"

namespace stretto {
namespace {

/// Double precision is scarce: what takes one instruction in F32 takes a routine.
constexpr double kDoubleOperations = 8;

}  // namespace

double operations(const Expr& expr) {
    double sum = 0;
    for (const ExprNode& node : expr.nodes) {
        const double scale = node.type == DType::F64 ? kDoubleOperations : 1;
        switch (node.op) {
            case Op::Const:
            case Op::Acc:
            case Op::Stat:
                break;
            case Op::Load:
                sum += kLoadOperations;
                break;
            case Op::Exp:
            case Op::Log:
            case Op::Sqrt:
            case Op::Rsqrt:
            case Op::Recip:
            case Op::Div:
            case Op::Sigmoid:
            case Op::FloorDiv:
            case Op::Mod:
                sum += 8 * scale;
                break;
            case Op::Sin:
            case Op::Cos:
            case Op::Tanh:
            case Op::Erf:
            case Op::Pow:
                sum += 32 * scale;
                break;
            default:
                sum += scale;
        }
    }
    return sum;
}

}  // namespace stretto
