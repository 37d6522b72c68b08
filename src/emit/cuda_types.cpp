#include "emit/cuda_types.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/rounding.h"

namespace stretto {

Domain domain_of(DType type) {
    if (type == DType::F64) return Domain::F64;
    return is_float(type) ? Domain::F32 : Domain::I64;
}

std::string cuda_name(Domain domain) {
    switch (domain) {
        case Domain::I64:
            return "I64";
        case Domain::F32:
            return "float";
        case Domain::F64:
            break;
    }
    return "double";
}

std::string element_name(DType type) {
    switch (type) {
        case DType::Bool:
            return "bool";
        case DType::U8:
            return "U8";
        case DType::I32:
            return "I32";
        case DType::I64:
            return "I64";
        case DType::F16:
            return "F16";
        case DType::BF16:
            return "BF16";
        case DType::F32:
            return "float";
        case DType::F64:
            break;
    }
    return "double";
}

std::string memory_name(const Buffer& buffer) {
    const std::string element = element_name(buffer.dtype);
    if (!buffer.tagged) return element;
    return fmt::format("{}<{}>", buffer.packed ? "Packed" : "Tagged", element);
}

std::string value_name(DType type) { return is_narrow_float(type) ? "float" : element_name(type); }

DType accumulator_type(DType element) {
    const Domain domain = domain_of(element);
    return domain == Domain::F64 ? DType::F64 : domain == Domain::F32 ? DType::F32 : DType::I64;
}

std::string literal(double value, DType type) {
    const double exact = rounded(value, type);
    const std::string domain = value_name(type);
    if (std::isnan(exact)) return fmt::format("not_a_number<{}>()", domain);
    if (std::isinf(exact)) return fmt::format("{}infinity<{}>()", exact < 0 ? "-" : "", domain);
    const std::string text = fmt::format("{}{:a}{}", std::signbit(exact) ? "-" : "", std::abs(exact),
                                         type == DType::F64 ? "" : "f");
    return std::signbit(exact) ? "(" + text + ")" : text;
}

std::string literal(std::int64_t value, DType type) {
    if (type == DType::Bool) return value != 0 ? "true" : "false";
    if (value == INT64_MIN) return "(-0x7fffffffffffffffll - 1)";
    return value < 0 ? fmt::format("({}ll)", value) : fmt::format("{}ll", value);
}

std::string converted(const std::string& text, DType from, DType type) {
    if (from == type) return text;
    if (type == DType::Bool) return fmt::format("({} != 0)", text);
    const Domain source = domain_of(from);
    const Domain target = domain_of(type);
    if (is_narrow_float(type)) {
        const std::string wide = source == Domain::F32 ? text : fmt::format("static_cast<float>({})", text);
        return fmt::format("round_to<{}>({})", element_name(type), wide);
    }
    if (source == target && value_name(from) == value_name(type)) return text;
    if (source != Domain::I64 && target == Domain::I64 && type != DType::I64) {
        return fmt::format("static_cast<{}>(static_cast<I64>({}))", value_name(type), text);
    }
    return fmt::format("static_cast<{}>({})", value_name(type), text);
}

}  // namespace stretto
