#include "graph/index_map.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/division.h"
#include "base/error.h"

namespace stretto {
namespace {

using Digits = std::vector<Atom>;

std::int64_t extent_of(const Digits& digits) {
    std::int64_t product = 1;
    for (const Atom& a : digits) product *= a.extent;
    return product;
}

/// Appends a digit, merging it with the one before it where the two act as one.
void append(Digits& digits, const Atom& next) {
    if (next.extent == 1 && !next.masked()) return;
    if (!digits.empty() && !digits.back().masked() && !next.masked() &&
        digits.back().stride == next.stride * next.extent) {
        digits.back() = atom(digits.back().extent * next.extent, next.stride);
        return;
    }
    digits.push_back(next);
}

Digits or_unit(Digits digits) {
    if (digits.empty()) digits.push_back(atom(1, 0));
    return digits;
}

Atom sliced_atom(const Atom& a, std::int64_t begin, std::int64_t count, std::int64_t step) {
    Atom result = atom(count, a.stride * step);
    if (a.masked()) {
        result.lo = std::clamp<std::int64_t>(ceil_div(a.lo - begin, step), 0, count);
        result.hi = std::clamp<std::int64_t>(ceil_div(a.hi - begin, step), 0, count);
    }
    return result;
}

/// Slices a list of digits; adds to `offset` what becomes constant.
std::optional<Digits> sliced_digits(const Digits& digits, std::int64_t begin, std::int64_t count,
                                    std::int64_t step, std::int64_t& offset) {
    if (begin == 0 && step == 1 && count == extent_of(digits)) return digits;
    if (digits.size() == 1) {
        offset += begin * digits[0].stride;
        return Digits{sliced_atom(digits[0], begin, count, step)};
    }
    const Digits inner(digits.begin() + 1, digits.end());
    const std::int64_t period = extent_of(inner);
    const std::int64_t last = begin + (count - 1) * step;
    if (begin / period == last / period) {
        const std::int64_t at = begin / period;
        auto rest = sliced_digits(inner, begin - at * period, count, step, offset);
        if (!rest) return std::nullopt;
        offset += at * digits[0].stride;
        const Atom fixed = sliced_atom(digits[0], at, 1, 1);
        if (fixed.masked()) rest->insert(rest->begin(), fixed);
        return rest;
    }
    if (step % period == 0 && begin % period == 0 && count > 1) return std::nullopt;
    if (step == 1 && begin % period == 0 && count % period == 0) {
        Digits result = inner;
        offset += begin / period * digits[0].stride;
        result.insert(result.begin(), sliced_atom(digits[0], begin / period, count / period, 1));
        return result;
    }
    return std::nullopt;
}

/// One digit of an outer map, assigned to one dimension of the middle value (or to none).
struct Placed {
    Atom digit;  ///< stride is relative to the middle dimension: coordinates per step
    std::int64_t middle = -1;
};

/// Splits `digit`, whose stride counts elements of a row-major value, into digits that each move along one of
/// its dimensions. False where that cannot be done.
bool place(const Atom& digit, const Shape& middle, const Shape& strides, std::vector<Placed>& out) {
    if (digit.stride == 0 || digit.extent == 1) {
        out.push_back({{digit.extent, 0, digit.lo, digit.hi}, -1});
        return true;
    }
    std::size_t d = 0;
    while (d < middle.size() && (middle[d] == 1 || strides[d] > digit.stride)) ++d;
    if (d == middle.size() || digit.stride % strides[d] != 0) return false;
    const std::int64_t step = digit.stride / strides[d];
    if (step * (digit.hi - 1 - digit.lo) < middle[d]) {
        out.push_back({{digit.extent, step, digit.lo, digit.hi}, static_cast<std::int64_t>(d)});
        return true;
    }
    if (middle[d] % step != 0) return false;
    const std::int64_t inner = middle[d] / step;
    if (digit.extent % inner != 0 || digit.lo % inner != 0 || digit.hi % inner != 0) return false;
    const Atom outer{digit.extent / inner, digit.stride * inner, digit.lo / inner, digit.hi / inner};
    return place(outer, middle, strides, out) && place(atom(inner, digit.stride), middle, strides, out);
}

}  // namespace

Shape IndexMap::shape() const {
    Shape result;
    for (const auto& digits : dims) result.push_back(extent_of(digits));
    return result;
}

bool IndexMap::masked() const {
    return std::any_of(dims.begin(), dims.end(), [](const Digits& digits) {
        return std::any_of(digits.begin(), digits.end(), [](const Atom& a) { return a.masked(); });
    });
}

IndexMap identity_map(const Shape& shape) {
    IndexMap map;
    const Shape strides = row_major_strides(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        map.dims.push_back({atom(shape[d], shape[d] == 1 ? 0 : strides[d])});
    }
    return map;
}

IndexMap normalized(IndexMap map) {
    for (auto& digits : map.dims) {
        Digits merged;
        for (const Atom& a : digits) append(merged, a);
        digits = or_unit(std::move(merged));
    }
    return map;
}

IndexMap permuted(const IndexMap& map, const std::vector<int>& order) {
    IndexMap result;
    result.offset = map.offset;
    for (int d : order) result.dims.push_back(map.dims.at(static_cast<std::size_t>(d)));
    return result;
}

IndexMap inserted_dim(const IndexMap& map, std::size_t at, std::int64_t extent) {
    IndexMap result = map;
    result.dims.insert(result.dims.begin() + static_cast<std::ptrdiff_t>(at), Digits{atom(extent, 0)});
    return result;
}

IndexMap removed_dim(const IndexMap& map, std::size_t at) {
    ensure(extent_of(map.dims.at(at)) == 1, "only a dimension of extent 1 can be removed");
    IndexMap result = map;
    const Digits removed = result.dims[at];
    result.dims.erase(result.dims.begin() + static_cast<std::ptrdiff_t>(at));
    for (const Atom& a : removed) {
        if (!a.masked()) continue;
        ensure(!result.dims.empty(), "a masked scalar has no dimension left to carry its mask");
        result.dims[0].insert(result.dims[0].begin(), a);
    }
    return result;
}

std::optional<IndexMap> reshaped(const IndexMap& map, const Shape& shape) {
    Digits flat;
    for (const auto& digits : map.dims) {
        for (const Atom& a : digits) append(flat, a);
    }
    IndexMap result;
    result.offset = map.offset;
    std::size_t next = 0;
    for (std::int64_t extent : shape) {
        Digits digits;
        std::int64_t need = extent;
        while (next < flat.size() && (need > 1 || flat[next].extent == 1)) {
            Atom& front = flat[next];
            if (need % front.extent == 0) {
                digits.push_back(front);
                need /= front.extent;
                ++next;
            } else if (front.extent % need == 0 && !front.masked()) {
                const std::int64_t rest = front.extent / need;
                digits.push_back(atom(need, front.stride * rest));
                front = atom(rest, front.stride);
                need = 1;
            } else {
                return std::nullopt;
            }
        }
        if (need != 1) return std::nullopt;
        result.dims.push_back(or_unit(std::move(digits)));
    }
    if (next < flat.size()) return std::nullopt;
    return result;
}

std::optional<IndexMap> sliced(const IndexMap& map, std::size_t dim, std::int64_t begin, std::int64_t count,
                               std::int64_t step) {
    IndexMap result = map;
    auto digits = sliced_digits(map.dims.at(dim), begin, count, step, result.offset);
    if (!digits) return std::nullopt;
    result.dims[dim] = std::move(*digits);
    return result;
}

std::optional<IndexMap> padded(const IndexMap& map, std::size_t dim, std::int64_t before,
                               std::int64_t after) {
    const IndexMap merged = normalized(map);
    if (merged.dims.at(dim).size() != 1) return std::nullopt;
    IndexMap result = map;
    const Atom& a = merged.dims[dim][0];
    result.dims[dim] = {{a.extent + before + after, a.stride, a.lo + before, a.hi + before}};
    result.offset -= before * a.stride;
    return result;
}

std::optional<IndexMap> composed(const IndexMap& outer, const Shape& middle, const IndexMap& inner) {
    ensure(inner.shape() == middle, "the inner map must be over the middle value's coordinates");
    // The digits of the inner map, each as a dimension of its own, linearize like the middle value itself. Those that act
    // as one are one: outer digits may cross them.
    Digits targets;
    for (const auto& digits : inner.dims) {
        for (const Atom& a : digits) append(targets, a);
    }
    Shape fine;
    for (const Atom& a : targets) fine.push_back(a.extent);
    const Shape strides = row_major_strides(fine);

    IndexMap result;
    result.offset = inner.offset;
    std::int64_t origin = outer.offset;
    std::vector<std::vector<Placed>> dims;
    for (const auto& digits : outer.dims) {
        auto& placed = dims.emplace_back();
        for (const Atom& a : digits) {
            origin += a.lo * a.stride;
            if (!place(a, fine, strides, placed)) return std::nullopt;
        }
    }
    if (origin < 0) return std::nullopt;
    Shape first(fine.size());
    for (std::size_t d = 0; d < fine.size(); ++d) {
        first[d] = origin / strides[d] % fine[d];
    }
    if (!fine.empty() && origin / strides[0] >= fine[0]) return std::nullopt;

    Shape last = first;
    std::vector<int> users(fine.size(), 0);
    for (const auto& placed : dims) {
        for (const Placed& p : placed) {
            if (p.middle < 0) continue;
            const auto d = static_cast<std::size_t>(p.middle);
            last[d] += p.digit.stride * (p.digit.hi - 1 - p.digit.lo);
            ++users[d];
        }
    }
    for (std::size_t d = 0; d < fine.size(); ++d) {
        if (last[d] >= fine[d]) return std::nullopt;
        result.offset += first[d] * targets[d].stride;
        const bool always_valid = first[d] >= targets[d].lo && last[d] < targets[d].hi;
        if (!always_valid && users[d] != 1) return std::nullopt;
    }
    for (const auto& placed : dims) {
        Digits digits;
        for (const Placed& p : placed) {
            Atom a = p.digit;
            if (p.middle >= 0) {
                const auto d = static_cast<std::size_t>(p.middle);
                const std::int64_t step = p.digit.stride;
                if (first[d] < targets[d].lo || last[d] >= targets[d].hi) {
                    // y = first + step * (x - lo) must lie in the target's valid range.
                    const std::int64_t base = first[d] - step * p.digit.lo;
                    a.lo = std::clamp(ceil_div(targets[d].lo - base, step), p.digit.lo, p.digit.hi);
                    a.hi = std::clamp(ceil_div(targets[d].hi - base, step), a.lo, p.digit.hi);
                }
                a.stride = step * targets[d].stride;
                result.offset -= p.digit.lo * a.stride;
            }
            append(digits, a);
        }
        result.dims.push_back(or_unit(std::move(digits)));
    }
    return result;
}

std::optional<IndexMap> aligned(const IndexMap& map, const Shape& allocation) {
    const Shape strides = row_major_strides(allocation);
    IndexMap result;
    result.offset = map.offset;
    for (const auto& digits : map.dims) {
        Digits split;
        for (const Atom& a : digits) {
            std::vector<Placed> placed;
            if (!place(a, allocation, strides, placed)) return std::nullopt;
            for (const Placed& p : placed) {
                const std::int64_t unit = p.middle < 0 ? 0 : strides[static_cast<std::size_t>(p.middle)];
                split.push_back({p.digit.extent, p.digit.stride * unit, p.digit.lo, p.digit.hi});
            }
        }
        result.dims.push_back(std::move(split));
    }
    return result;
}

std::optional<IndexMap> coordinate_map(const IndexMap& outer, const Shape& middle, std::size_t dim) {
    IndexMap unit;
    for (std::size_t d = 0; d < middle.size(); ++d) unit.dims.push_back({atom(middle[d], d == dim ? 1 : 0)});
    return composed(outer, middle, unit);
}

bool is_injective(const IndexMap& map) {
    if (map.masked()) return false;
    Digits digits;
    for (const auto& dim : map.dims) {
        std::copy_if(dim.begin(), dim.end(), std::back_inserter(digits),
                     [](const Atom& a) { return a.extent > 1; });
    }
    std::sort(digits.begin(), digits.end(), [](const Atom& a, const Atom& b) { return a.stride < b.stride; });
    std::int64_t reach = 1;
    return std::all_of(digits.begin(), digits.end(), [&](const Atom& a) {
        const bool apart = a.stride >= reach;
        reach += a.stride * (a.extent - 1);
        return apart;
    });
}

std::optional<std::int64_t> offset_of(const IndexMap& map, const std::vector<std::int64_t>& at) {
    std::int64_t offset = map.offset;
    for (std::size_t d = 0; d < map.dims.size(); ++d) {
        std::int64_t rest = at.at(d);
        for (std::size_t i = map.dims[d].size(); i-- > 0;) {
            const Atom& a = map.dims[d][i];
            const std::int64_t digit = i == 0 ? rest : rest % a.extent;
            rest /= a.extent;
            if (digit < a.lo || digit >= a.hi) return std::nullopt;
            offset += digit * a.stride;
        }
    }
    return offset;
}

Box footprint(const IndexMap& map, const Box& tile, const Shape& allocation) {
    ensure(tile.size() == map.dims.size(), "a tile has one range for each dimension of the map");
    const Shape strides = row_major_strides(allocation);
    std::int64_t origin = map.offset;
    Shape span(allocation.size(), 0);
    const Box nothing(allocation.size(), Range{0, 0});
    for (std::size_t d = 0; d < map.dims.size(); ++d) {
        Range rest = tile[d];
        if (rest.empty()) return nothing;
        std::int64_t period = extent_of(map.dims[d]);
        for (const Atom& a : map.dims[d]) {
            period /= a.extent;
            Range digit{rest.begin / period, (rest.end - 1) / period + 1};
            rest = digit.size() == 1
                       ? Range{rest.begin - digit.begin * period, rest.end - digit.begin * period}
                       : Range{0, period};
            digit = {std::max(digit.begin, a.lo), std::min(digit.end, a.hi)};
            if (digit.empty()) return nothing;
            // A negative stride touches the same elements as a positive one that starts at the other end.
            origin += (a.stride < 0 ? digit.end - 1 : digit.begin) * a.stride;
            const std::int64_t stride = std::abs(a.stride);
            const std::int64_t steps = digit.size() - 1;
            if (steps == 0 || stride == 0) continue;
            std::size_t along = 0;
            while (along + 1 < allocation.size() && strides[along] > stride) ++along;
            // A stride that is no multiple of the dimension's moves along the finer ones too.
            for (std::int64_t left = stride; left > 0; ++along) {
                span[along] += left / strides[along] * steps;
                left %= strides[along];
            }
        }
    }
    Box box(allocation.size());
    std::int64_t carry = 0;
    for (std::size_t d = allocation.size(); d-- > 0;) {
        const std::int64_t at = origin / strides[d] % allocation[d];
        const std::int64_t end = at + span[d] + carry;
        carry = end / allocation[d];
        box[d] = carry > 0 ? Range{0, allocation[d]} : Range{at, end + 1};
    }
    ensure(carry == 0, "an access reaches beyond its allocation");
    return box;
}

}  // namespace stretto
