#pragma once

#include <cmath>
#include <cstdint>

#include "backends/reference/number.h"
#include "graph/expr.h"

namespace stretto {

/// Applies a unary operation to `lanes` values of T. Returns false if T has no such operation.
template <class T>
bool apply_unary(Op op, const T* a, T* out, std::int32_t lanes) {
    const auto each = [&](auto f) {
        for (std::int32_t i = 0; i < lanes; ++i) out[i] = f(a[i]);
        return true;
    };
    switch (op) {
        case Op::Neg:
            return each([](T x) { return -x; });
        default:
            break;
    }
    if constexpr (std::is_floating_point_v<T>) {
        switch (op) {
            case Op::Abs:
                return each([](T x) { return std::fabs(x); });
            case Op::Exp:
                return each([](T x) { return std::exp(x); });
            case Op::Log:
                return each([](T x) { return std::log(x); });
            case Op::Sqrt:
                return each([](T x) { return std::sqrt(x); });
            case Op::Rsqrt:
                return each([](T x) { return T{1} / std::sqrt(x); });
            case Op::Recip:
                return each([](T x) { return T{1} / x; });
            case Op::Sin:
                return each([](T x) { return std::sin(x); });
            case Op::Cos:
                return each([](T x) { return std::cos(x); });
            case Op::Tanh:
                return each([](T x) { return std::tanh(x); });
            case Op::Erf:
                return each([](T x) { return std::erf(x); });
            case Op::Sigmoid:
                return each([](T x) { return T{1} / (T{1} + std::exp(-x)); });
            case Op::Floor:
                return each([](T x) { return std::floor(x); });
            case Op::Ceil:
                return each([](T x) { return std::ceil(x); });
            default:
                break;
        }
    } else if (op == Op::Abs) {
        return each([](T x) { return x < 0 ? -x : x; });
    } else if (op == Op::Floor || op == Op::Ceil) {
        return each([](T x) { return x; });
    }
    return false;
}

/// Division that rounds down, as Python's //; 0 for an integer division by zero.
template <class T>
T floor_div(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        return std::floor(a / b);
    } else {
        if (b == 0) return 0;
        if (b == -1) return static_cast<T>(-static_cast<std::uint64_t>(a));
        const T quotient = a / b;
        return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
    }
}

/// Remainder with the sign of the divisor, as Python's %.
template <class T>
T floor_mod(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        const T rest = std::fmod(a, b);
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
        if (b == 0 || b == -1) return 0;
        const T rest = a % b;
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
}

template <class T>
T power(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        return std::pow(a, b);
    } else {
        std::uint64_t result = b < 0 ? (a == 1 ? 1 : 0) : 1;
        auto base = static_cast<std::uint64_t>(a);
        for (T rest = b; rest > 0; rest >>= 1, base *= base) {
            if (rest & 1) result *= base;
        }
        return static_cast<T>(result);
    }
}

/// Operations on the bits of integers. Distances of shifts are in [0, 64).
template <class T>
bool apply_bitwise(Op op, const T* a, const T* b, T* out, std::int32_t lanes) {
    const auto each = [&](auto f) {
        for (std::int32_t i = 0; i < lanes; ++i) out[i] = f(a[i], b[i]);
        return true;
    };
    switch (op) {
        case Op::BitAnd:
            return each([](T x, T y) { return x & y; });
        case Op::BitOr:
            return each([](T x, T y) { return x | y; });
        case Op::BitXor:
            return each([](T x, T y) { return x ^ y; });
        case Op::ShiftLeft:
            return each([](T x, T y) { return static_cast<T>(static_cast<std::uint64_t>(x) << (y & 63)); });
        case Op::ShiftRight:
            return each([](T x, T y) { return x >> (y & 63); });
        default:
            return false;
    }
}

/// Arithmetic on two operands. Integers wrap. Min and Max keep a NaN, as PyTorch's minimum and maximum.
template <class T>
bool apply_arithmetic(Op op, const T* a, const T* b, T* out, std::int32_t lanes) {
    const auto each = [&](auto f) {
        for (std::int32_t i = 0; i < lanes; ++i) out[i] = f(a[i], b[i]);
        return true;
    };
    const auto wrapped = [&](auto f) {
        if constexpr (std::is_floating_point_v<T>) return each(f);
        using U = std::uint64_t;
        return each([f](T x, T y) { return static_cast<T>(f(static_cast<U>(x), static_cast<U>(y))); });
    };
    switch (op) {
        case Op::Add:
            return wrapped([](auto x, auto y) { return x + y; });
        case Op::Sub:
            return wrapped([](auto x, auto y) { return x - y; });
        case Op::Mul:
            return wrapped([](auto x, auto y) { return x * y; });
        case Op::Div:
            if constexpr (std::is_floating_point_v<T>) return each([](T x, T y) { return x / y; });
            return each([](T x, T y) { return y == 0 || y == -1 ? floor_div(x, y) : x / y; });
        case Op::Pow:
            return each([](T x, T y) { return power(x, y); });
        case Op::Min:
            return each([](T x, T y) { return x < y || x != x ? x : y; });
        case Op::Max:
            return each([](T x, T y) { return x > y || x != x ? x : y; });
        case Op::FloorDiv:
            return each([](T x, T y) { return floor_div(x, y); });
        case Op::Mod:
            return each([](T x, T y) { return floor_mod(x, y); });
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) return apply_bitwise(op, a, b, out, lanes);
    return false;
}

/// Comparisons and logic: 1 or 0.
template <class T>
bool apply_predicate(Op op, const T* a, const T* b, std::int64_t* out, std::int32_t lanes) {
    const auto each = [&](auto f) {
        for (std::int32_t i = 0; i < lanes; ++i) out[i] = f(a[i], b[i]) ? 1 : 0;
        return true;
    };
    switch (op) {
        case Op::Lt:
            return each([](T x, T y) { return x < y; });
        case Op::Le:
            return each([](T x, T y) { return x <= y; });
        case Op::Eq:
            return each([](T x, T y) { return x == y; });
        case Op::Ne:
            return each([](T x, T y) { return x != y; });
        case Op::And:
            return each([](T x, T y) { return x != 0 && y != 0; });
        case Op::Or:
            return each([](T x, T y) { return x != 0 || y != 0; });
        default:
            return false;
    }
}

}  // namespace stretto
