#pragma once

#include "stretto/types.h"

/// Scalar operations of expressions with PyTorch's meaning. `T` is float, double or I64.
namespace stretto::device {

template <class T>
__device__ __forceinline__ T infinity();
template <>
__device__ __forceinline__ float infinity<float>() {
    return __int_as_float(0x7f800000);
}
template <>
__device__ __forceinline__ double infinity<double>() {
    return __longlong_as_double(0x7ff0000000000000ll);
}
template <>
__device__ __forceinline__ I64 infinity<I64>() {
    return 0x7fffffffffffffffll;
}

/// What every other value is at least.
template <class T>
__device__ __forceinline__ T lowest() {
    return -infinity<T>();
}
template <>
__device__ __forceinline__ I64 lowest<I64>() {
    return -infinity<I64>() - 1;
}

template <class T>
__device__ __forceinline__ T not_a_number();
template <>
__device__ __forceinline__ float not_a_number<float>() {
    return __int_as_float(0x7fc00000);
}
template <>
__device__ __forceinline__ double not_a_number<double>() {
    return __longlong_as_double(0x7ff8000000000000ll);
}

/// Not a number wins, as in torch.maximum.
template <class T>
__device__ __forceinline__ T maximum(T a, T b) {
    return a > b || a != a ? a : b;
}
template <class T>
__device__ __forceinline__ T minimum(T a, T b) {
    return a < b || a != a ? a : b;
}
__device__ __forceinline__ float maximum(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
__device__ __forceinline__ float minimum(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

/// A position within [0, extent].
__device__ __forceinline__ I64 clamped(I64 at, I64 extent) { return at < 0 ? 0 : at > extent ? extent : at; }

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }

/// a / b within one unit in the last place, nearly always the nearest. The compiler's own division branches for every
/// element, and takes hundreds of cycles where a dividend is zero or tiny, as most of a masked softmax is; here one
/// correction of the product with the reciprocal follows at once (Markstein, "IA-64 and Elementary Functions", chapter 8).
__device__ __forceinline__ float quotient(float a, float b) {
    // Divisors whose reciprocal leaves the range move into it, and dividends with them.
    const float scale = fabsf(b) > 0x1p125f ? 0x1p-64f : fabsf(b) < 0x1p-126f ? 0x1p64f : 1.0f;
    a *= scale;
    b *= scale;
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    const float near = a * inverse;
    const float better = __fmaf_rn(__fmaf_rn(-b, near, a), inverse, near);
    // Of an infinite or zero quotient the correction is no number, or has lost the sign.
    return better == better && near != 0 ? better : near;
}

/// The square root of x, rounded as `quotient`, and likewise without a branch for every element.
__device__ __forceinline__ float square_root(float x) {
    float inverse;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    const float near = x * inverse;
    const float better = __fmaf_rn(__fmaf_rn(-near, near, x), 0.5f * inverse, near);
    return near == near ? better : x < 0 ? near : x;  // zero and infinity are their own roots
}

/// 1 / (1 + exp(-x)), rounded as `quotient`; its divisor is never small. Results below 2^-125 may be zero.
__device__ __forceinline__ float sigmoid(float x) {
    const float divisor = 1.0f + expf(-x);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
    const float better = __fmaf_rn(__fmaf_rn(-divisor, inverse, 1.0f), inverse, inverse);
    return divisor < 0x1p125f ? better : inverse;  // of an infinite divisor the correction is no number
}

/// exp(x) and a / b to about 2^-18, in two instructions; where many dividends share a divisor, in one.
__device__ __forceinline__ float quick_exponential(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 0x1.715476p+0f));
    return result;
}
/// exp(x * factor - less) to about 2^-18, or 2^-23 of the larger of the two if that is more, in two instructions where `factor`
/// is constant and many share `less`. Both are far from the largest float.
__device__ __forceinline__ float quick_exponential(float x, float factor, float less) {
    constexpr float kLog2OfE = 0x1.715476p+0f;
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;"
        : "=f"(result)
        : "f"(__fmaf_rn(x, factor * kLog2OfE, -(less * kLog2OfE))));
    return result;
}
__device__ __forceinline__ float quick_quotient(float a, float b) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    return a * inverse;
}

// Integer division by zero gives zero.
__device__ __forceinline__ I64 divide(I64 a, I64 b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
__device__ __forceinline__ I64 python_mod(I64 a, I64 b) {
    if (b == 0 || b == -1) return 0;
    const I64 r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ float python_mod(float a, float b) {
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ double python_mod(double a, double b) {
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

__device__ __forceinline__ I64 floor_div(I64 a, I64 b) {
    const I64 q = divide(a, b);
    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
__device__ __forceinline__ float floor_div(float a, float b) { return floorf(a / b); }
__device__ __forceinline__ double floor_div(double a, double b) { return floor(a / b); }

/// Negative exponents give what remains of 1 / a^-b after truncation.
__device__ __forceinline__ I64 power(I64 a, I64 b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    I64 result = 1;
    for (; b > 0; b /= 2, a *= a) {
        if (b % 2 != 0) result *= a;
    }
    return result;
}

/// An indirect coordinate: negative ones count from the end; the result never leaves the buffer.
__device__ __forceinline__ I64 wrapped(I64 at, I64 extent) {
    const I64 c = at < 0 ? at + extent : at;
    return c < 0 ? 0 : c < extent ? c : extent - 1;
}

/// sin(x + quarter turns). CUDA's sinf keeps an array in local memory for large arguments; a reduction in double
/// needs none and is exact to float precision for |x| < 2^50.
__device__ __forceinline__ float sine(float x, int quarters) {
    const double turns = rint(static_cast<double>(x) * 0x1.45f306dc9c883p-1);
    const double near = __fma_rn(-turns, 0x1.921fb54442d18p+0, static_cast<double>(x));
    const float r = static_cast<float>(__fma_rn(-turns, 0x1.1a62633145c07p-54, near));
    const int quadrant = static_cast<int>(static_cast<I64>(turns)) + quarters;
    const float z = r * r;
    const float odd = __fmaf_rn(
        __fmaf_rn(__fmaf_rn(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f), z * r, r);
    const float even = __fmaf_rn(
        __fmaf_rn(__fmaf_rn(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f),
        z * z, __fmaf_rn(z, -0.5f, 1.0f));
    const float value = (quadrant & 1) ? even : odd;
    return (quadrant & 2) ? -value : value;
}

/// Sum over the lanes of a warp, in the order that the CPU twins use; every lane gets it.
template <class T, class Combine>
__device__ __forceinline__ T butterfly(T value, Combine combine) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = combine(value, __shfl_xor_sync(~0u, value, offset));
    return value;
}
template <class T>
__device__ __forceinline__ T butterfly_sum(T value) {
    return butterfly(value, [](T a, T b) { return a + b; });
}

}  // namespace stretto::device
