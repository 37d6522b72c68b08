#include "base/box.h"

#include "base/error.h"

namespace stretto {

bool intersects(const Box& a, const Box& b) {
    ensure(a.size() == b.size(), "boxes of different rank do not compare");
    for (std::size_t d = 0; d < a.size(); ++d) {
        if (!intersects(a[d], b[d])) return false;
    }
    return true;
}

bool contains(const Box& outer, const Box& inner) {
    ensure(outer.size() == inner.size(), "boxes of different rank do not compare");
    for (std::size_t d = 0; d < outer.size(); ++d) {
        if (!contains(outer[d], inner[d])) return false;
    }
    return true;
}

std::int64_t volume(const Box& box) {
    std::int64_t product = 1;
    for (Range r : box) product *= std::max<std::int64_t>(r.size(), 0);
    return product;
}

std::int64_t volume(const Shape& shape) {
    std::int64_t product = 1;
    for (std::int64_t extent : shape) product *= extent;
    return product;
}

Box whole(const Shape& shape) {
    Box box;
    for (std::int64_t extent : shape) box.push_back({0, extent});
    return box;
}

Shape row_major_strides(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    return strides;
}

namespace {

void cover(const Shape& shape, const Shape& strides, std::size_t d, Box prefix, Range range,
           std::vector<Box>& out) {
    if (range.empty()) return;
    if (d == shape.size()) {
        out.push_back(std::move(prefix));
        return;
    }
    const std::int64_t stride = strides[d];
    const std::int64_t first = range.begin / stride;
    const std::int64_t last = range.end / stride;
    const auto partial = [&](std::int64_t at, Range inner) {
        Box next = prefix;
        next.push_back({at, at + 1});
        cover(shape, strides, d + 1, std::move(next), inner, out);
    };
    if (first == last) {
        partial(first, {range.begin - first * stride, range.end - first * stride});
        return;
    }
    std::int64_t full = first;
    if (range.begin % stride != 0) {
        partial(first, {range.begin - first * stride, stride});
        ++full;
    }
    if (full < last) {
        Box next = prefix;
        next.push_back({full, last});
        for (std::size_t rest = d + 1; rest < shape.size(); ++rest) next.push_back({0, shape[rest]});
        out.push_back(std::move(next));
    }
    if (range.end % stride != 0) partial(last, {0, range.end - last * stride});
}

}  // namespace

std::vector<Box> boxes_of_linear_range(const Shape& shape, Range range) {
    std::vector<Box> out;
    cover(shape, row_major_strides(shape), 0, {}, range, out);
    return out;
}

}  // namespace stretto
