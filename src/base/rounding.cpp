#include "base/rounding.h"

namespace stretto {

double rounded(double x, DType type) {
    switch (type) {
        case DType::Bool:
            return x != 0 ? 1 : 0;
        case DType::U8:
            return static_cast<std::uint8_t>(truncated(x));
        case DType::I32:
            return static_cast<std::int32_t>(truncated(x));
        case DType::I64:
            return static_cast<double>(truncated(x));
        case DType::F16:
            return f16_to_f32(f32_to_f16(static_cast<float>(x)));
        case DType::BF16:
            return bf16_to_f32(f32_to_bf16(static_cast<float>(x)));
        case DType::F32:
            return static_cast<float>(x);
        case DType::F64:
            return x;
    }
    return x;
}

}  // namespace stretto
