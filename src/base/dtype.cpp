#include "base/dtype.h"

#include <array>
#include <string>

#include "base/error.h"

namespace stretto {
namespace {

struct Row {
    DType type;
    std::size_t size;
    std::string_view name;
};

constexpr std::array<Row, 8> kRows{{{DType::Bool, 1, "bool"},
                                    {DType::U8, 1, "u8"},
                                    {DType::I32, 4, "i32"},
                                    {DType::I64, 8, "i64"},
                                    {DType::F16, 2, "f16"},
                                    {DType::BF16, 2, "bf16"},
                                    {DType::F32, 4, "f32"},
                                    {DType::F64, 8, "f64"}}};

const Row& row(DType type) { return kRows.at(static_cast<std::size_t>(type)); }

}  // namespace

std::size_t size_of(DType type) { return row(type).size; }

std::string_view name(DType type) { return row(type).name; }

DType parse_dtype(std::string_view text) {
    for (const Row& candidate : kRows) {
        if (candidate.name == text) return candidate.type;
    }
    throw UserError("unknown element type '" + std::string(text) + "'");
}

bool is_float(DType type) { return type >= DType::F16; }

bool is_narrow_float(DType type) { return type == DType::F16 || type == DType::BF16; }

}  // namespace stretto
