#include "backends/reference/convert.h"

#include <algorithm>
#include <type_traits>

namespace stretto {
namespace {

template <class To, class From>
To converted_value(From value) {
    if constexpr (std::is_same_v<To, std::int64_t> && !std::is_same_v<From, std::int64_t>) {
        return truncated(static_cast<double>(value));
    } else {
        return static_cast<To>(value);
    }
}

template <class Use>
void with_domain(Domain domain, Use&& use) {
    if (domain == Domain::F32) return use(float{});
    if (domain == Domain::F64) return use(double{});
    return use(std::int64_t{});
}

template <class T>
auto loaded(T stored, DType type) {
    if constexpr (std::is_same_v<T, std::uint16_t>) {
        return type == DType::BF16 ? bf16_to_f32(stored) : f16_to_f32(stored);
    } else {
        return stored;
    }
}

/// What is stored for `value` in an element of `type`, which has storage T.
template <class T, class V>
T stored(V value, DType type) {
    if constexpr (std::is_same_v<T, std::uint16_t>) {
        const auto narrow = static_cast<float>(value);
        return type == DType::BF16 ? f32_to_bf16(narrow) : f32_to_f16(narrow);
    } else if constexpr (std::is_integral_v<T>) {
        if (type == DType::Bool) return value != 0 ? 1 : 0;
        return static_cast<T>(converted_value<std::int64_t>(value));
    } else {
        return static_cast<T>(value);
    }
}

}  // namespace

void convert_lanes(const void* from, Domain from_domain, void* to, Domain to_domain, std::int64_t lanes) {
    with_domain(from_domain, [&](auto source) {
        with_domain(to_domain, [&](auto target) {
            const auto* in = static_cast<const decltype(source)*>(from);
            auto* out = static_cast<decltype(target)*>(to);
            for (std::int64_t i = 0; i < lanes; ++i) out[i] = converted_value<decltype(target)>(in[i]);
        });
    });
}

void read_lanes(const std::byte* base, DType type, std::int64_t stride, std::int64_t count, void* out,
                Domain domain) {
    with_storage(type, [&](auto element) {
        with_domain(domain, [&](auto lane) {
            using Lane = decltype(lane);
            const auto* in = reinterpret_cast<const decltype(element)*>(base);
            auto* to = static_cast<Lane*>(out);
            if (stride == 0) {
                std::fill_n(to, count, converted_value<Lane>(loaded(*in, type)));
            } else if (stride == 1 && type == DType::BF16) {
                for (std::int64_t i = 0; i < count; ++i)
                    to[i] = converted_value<Lane>(loaded(in[i], DType::BF16));
            } else if (stride == 1) {
                for (std::int64_t i = 0; i < count; ++i) to[i] = converted_value<Lane>(loaded(in[i], type));
            } else {
                for (std::int64_t i = 0; i < count; ++i) {
                    to[i] = converted_value<Lane>(loaded(in[i * stride], type));
                }
            }
        });
    });
}

void write_lanes(const void* lanes, Domain domain, std::byte* base, DType type, std::int64_t stride,
                 std::int64_t count) {
    with_storage(type, [&](auto element) {
        with_domain(domain, [&](auto lane) {
            using Element = decltype(element);
            const auto* in = static_cast<const decltype(lane)*>(lanes);
            auto* out = reinterpret_cast<Element*>(base);
            for (std::int64_t i = 0; i < count; ++i) out[i * stride] = stored<Element>(in[i], type);
        });
    });
}

}  // namespace stretto
