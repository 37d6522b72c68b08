#pragma once

#include <cstdint>

namespace stretto {

inline constexpr std::int32_t kWarp = 32;

/// What each of `count` lanes (a power of two) holds after combining with its neighbours at distance count / 2, ..., 2, 1.
/// Overwrites `lanes`. `combine` must be commutative.
template <class T, class Combine>
T butterfly(T* lanes, Combine&& combine, std::int32_t count = kWarp) {
    for (std::int32_t distance = count / 2; distance > 0; distance /= 2) {
        for (std::int32_t lane = 0; lane < distance; ++lane) {
            lanes[lane] = combine(lanes[lane], lanes[lane + distance]);
        }
    }
    return lanes[0];
}

template <class T>
T butterfly_sum(T* lanes) {
    return butterfly(lanes, [](T a, T b) { return a + b; });
}

}  // namespace stretto
