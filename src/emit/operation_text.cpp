#include "emit/operation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "emit/cuda_types.h"

namespace stretto {
namespace {

/// How an operation is written for each domain; {0}, {1} are the operands. Empty: the domain does not have it.
struct Spelling {
    Op op;
    const char* i64;
    const char* f32;
    const char* f64;
};

constexpr std::array kSpellings{
    Spelling{Op::Neg, "-{0}", "-{0}", "-{0}"},
    Spelling{Op::Abs, "llabs({0})", "fabsf({0})", "fabs({0})"},
    Spelling{Op::Exp, "", "expf({0})", "exp({0})"},
    Spelling{Op::Log, "", "logf({0})", "log({0})"},
    Spelling{Op::Sqrt, "", "square_root({0})", "sqrt({0})"},
    Spelling{Op::Rsqrt, "", "rsqrtf({0})", "rsqrt({0})"},
    Spelling{Op::Recip, "", "quotient(1.0f, {0})", "1.0 / {0}"},
    Spelling{Op::Sin, "", "sine({0}, 0)", "sin({0})"},
    Spelling{Op::Cos, "", "sine({0}, 1)", "cos({0})"},
    Spelling{Op::Tanh, "", "tanhf({0})", "tanh({0})"},
    Spelling{Op::Erf, "", "erff({0})", "erf({0})"},
    Spelling{Op::Sigmoid, "", "sigmoid({0})", "1.0 / (1.0 + exp(-{0}))"},
    Spelling{Op::Floor, "{0}", "floorf({0})", "floor({0})"},
    Spelling{Op::Ceil, "{0}", "ceilf({0})", "ceil({0})"},
    Spelling{Op::Add, "{0} + {1}", "{0} + {1}", "{0} + {1}"},
    Spelling{Op::Sub, "{0} - {1}", "{0} - {1}", "{0} - {1}"},
    Spelling{Op::Mul, "{0} * {1}", "{0} * {1}", "{0} * {1}"},
    Spelling{Op::Div, "divide({0}, {1})", "quotient({0}, {1})", "{0} / {1}"},
    Spelling{Op::Pow, "power({0}, {1})", "powf({0}, {1})", "pow({0}, {1})"},
    Spelling{Op::Min, "minimum({0}, {1})", "minimum({0}, {1})", "minimum({0}, {1})"},
    Spelling{Op::Max, "maximum({0}, {1})", "maximum({0}, {1})", "maximum({0}, {1})"},
    Spelling{Op::FloorDiv, "floor_div({0}, {1})", "floor_div({0}, {1})", "floor_div({0}, {1})"},
    Spelling{Op::Mod, "python_mod({0}, {1})", "python_mod({0}, {1})", "python_mod({0}, {1})"},
    Spelling{Op::BitAnd, "{0} & {1}", "", ""},
    Spelling{Op::BitOr, "{0} | {1}", "", ""},
    Spelling{Op::BitXor, "{0} ^ {1}", "", ""},
    Spelling{Op::ShiftLeft, "static_cast<I64>(static_cast<U64>({0}) << ({1} & 63))", "", ""},
    Spelling{Op::ShiftRight, "{0} >> ({1} & 63)", "", ""},
    Spelling{Op::Lt, "{0} < {1}", "{0} < {1}", "{0} < {1}"},
    Spelling{Op::Le, "{0} <= {1}", "{0} <= {1}", "{0} <= {1}"},
    Spelling{Op::Eq, "{0} == {1}", "{0} == {1}", "{0} == {1}"},
    Spelling{Op::Ne, "{0} != {1}", "{0} != {1}", "{0} != {1}"},
    Spelling{Op::Not, "{0} == 0", "{0} == 0", "{0} == 0"},
    Spelling{Op::And, "{0} != 0 && {1} != 0", "{0} != 0 && {1} != 0", "{0} != 0 && {1} != 0"},
    Spelling{Op::Or, "{0} != 0 || {1} != 0", "{0} != 0 || {1} != 0", "{0} != 0 || {1} != 0"},
};

bool yields_bool(Op op) { return op == Op::Not || (op >= Op::Lt && op <= Op::Or); }

Domain domain_of_operands(const std::vector<Operand>& operands) {
    Domain widest = Domain::I64;
    for (const Operand& operand : operands) widest = std::max(widest, domain_of(operand.type));
    return widest;
}

DType widest_type(Domain domain) {
    switch (domain) {
        case Domain::I64:
            return DType::I64;
        case Domain::F32:
            return DType::F32;
        case Domain::F64:
            break;
    }
    return DType::F64;
}

std::string spelled(const ExprNode& node, Domain domain, Quick quick, const std::string& a,
                    const std::string& b) {
    if (quick != Quick::Nothing && domain == Domain::F32 && node.op == Op::Exp)
        return fmt::format("quick_exponential({})", a);
    if (quick == Quick::Quotients && domain == Domain::F32) {
        if (node.op == Op::Div) return fmt::format("quick_quotient({}, {})", a, b);
        if (node.op == Op::Recip) return fmt::format("quick_quotient(1.0f, {})", a);
    }
    for (const Spelling& row : kSpellings) {
        if (row.op != node.op) continue;
        const char* format = domain == Domain::I64 ? row.i64 : domain == Domain::F32 ? row.f32 : row.f64;
        if (*format != '\0') return fmt::format(fmt::runtime(format), a, b);
    }
    throw InternalError(
        fmt::format("operation {} has no CUDA form for {}: the front end must cast its operands",
                    info(node.op).name, cuda_name(domain)));
}

}  // namespace

std::string operation_text(const ExprNode& node, const std::vector<Operand>& operands, Quick quick) {
    if (node.op == Op::Cast) return converted(operands[0].text, operands[0].type, node.type);
    if (node.op == Op::Bits) {
        return fmt::format("__float_as_int({})", converted(operands[0].text, operands[0].type, DType::F32));
    }
    if (node.op == Op::Select) {
        return fmt::format("{} ? {} : {}", converted(operands[0].text, operands[0].type, DType::Bool),
                           converted(operands[1].text, operands[1].type, node.type),
                           converted(operands[2].text, operands[2].type, node.type));
    }
    const Domain domain = yields_bool(node.op) ? domain_of_operands(operands) : domain_of(node.type);
    const DType wide = widest_type(domain);
    const std::string a = converted(operands[0].text, operands[0].type, wide);
    const std::string b = operands.size() > 1 ? converted(operands[1].text, operands[1].type, wide) : "";
    const std::string text = spelled(node, domain, quick, a, b);
    if (yields_bool(node.op) || node.type == wide) return text;
    return converted("(" + text + ")", wide, node.type);
}

}  // namespace stretto
