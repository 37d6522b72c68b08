#include "runtime/tensors.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <random>

#include "base/error.h"
#include "base/rounding.h"

namespace stretto {
namespace {

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <class T>
void store(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

double load_float(const std::byte* at, DType type) {
    switch (type) {
        case DType::F16:
            return f16_to_f32(load<std::uint16_t>(at));
        case DType::BF16:
            return bf16_to_f32(load<std::uint16_t>(at));
        case DType::F32:
            return load<float>(at);
        case DType::F64:
            return load<double>(at);
        default:
            throw InternalError("load_float: not a float type");
    }
}

void store_float(std::byte* at, DType type, double value) {
    switch (type) {
        case DType::F16:
            return store(at, f32_to_f16(static_cast<float>(value)));
        case DType::BF16:
            return store(at, f32_to_bf16(static_cast<float>(value)));
        case DType::F32:
            return store(at, static_cast<float>(value));
        case DType::F64:
            return store(at, value);
        default:
            throw InternalError("store_float: not a float type");
    }
}

std::int64_t load_integer(const std::byte* at, DType type) {
    switch (type) {
        case DType::Bool:
        case DType::U8:
            return load<std::uint8_t>(at);
        case DType::I32:
            return load<std::int32_t>(at);
        case DType::I64:
            return load<std::int64_t>(at);
        default:
            throw InternalError("load_integer: not an integer type");
    }
}

void store_integer(std::byte* at, DType type, std::int64_t value) {
    switch (type) {
        case DType::Bool:
            return store(at, static_cast<std::uint8_t>(value != 0));
        case DType::U8:
            return store(at, static_cast<std::uint8_t>(value));
        case DType::I32:
            return store(at, static_cast<std::int32_t>(value));
        case DType::I64:
            return store(at, value);
        default:
            throw InternalError("store_integer: not an integer type");
    }
}

/// A tensor whose element i is written by `fill(i, where)`.
template <class Fill>
HostTensor filled(DType dtype, const Shape& shape, Fill&& fill) {
    const auto count = static_cast<std::size_t>(volume(shape));
    const std::size_t size = count * size_of(dtype);
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
    for (std::size_t i = 0; i < count; ++i) fill(i, bytes.get() + i * size_of(dtype));
    return {dtype, shape, {bytes, bytes.get()}, size};
}

}  // namespace

HostTensor random_tensor(DType dtype, const Shape& shape, std::uint64_t seed) {
    // The engine's output is fixed by the standard; its distributions are not, so they are not used.
    std::mt19937_64 engine(seed);
    return filled(dtype, shape, [&](std::size_t, std::byte* at) {
        const std::uint64_t bits = engine();
        if (is_float(dtype)) {
            store_float(at, dtype, static_cast<double>(bits >> 11) * 0x1p-52 - 1.0);
        } else {
            store_integer(at, dtype,
                          static_cast<std::int64_t>((bits >> 33) % (dtype == DType::Bool ? 2 : 10)));
        }
    });
}

HostTensor converted(const HostTensor& tensor, DType dtype) {
    if (tensor.dtype == dtype) return tensor;
    if (is_float(tensor.dtype) != is_float(dtype)) {
        throw UserError(fmt::format("{} does not convert to {} without a decision of yours: convert it first",
                                    name(tensor.dtype), name(dtype)));
    }
    const std::byte* source = tensor.bytes.get();
    const std::size_t step = size_of(tensor.dtype);
    return filled(dtype, tensor.shape, [&](std::size_t i, std::byte* at) {
        if (is_float(dtype)) return store_float(at, dtype, load_float(source + i * step, tensor.dtype));
        const std::int64_t value = load_integer(source + i * step, tensor.dtype);
        store_integer(at, dtype, value);
        if (load_integer(at, dtype) != value) {
            throw UserError(fmt::format("element {} is {}, which {} cannot hold", i, value, name(dtype)));
        }
    });
}

}  // namespace stretto
