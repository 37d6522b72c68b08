#include "emit/index_text.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stretto {
namespace {

/// Digit `atom` of a coordinate; `inner` is the product of the extents of the digits inside it.
std::string digit_text(const std::string& coordinate, std::int64_t inner, const Atom& atom, bool outermost) {
    if (atom.extent == 1 || coordinate == "0") return "0";
    std::string text = inner == 1 ? coordinate : fmt::format("{} / {}", coordinate, inner);
    if (!outermost) text += fmt::format(" % {}", atom.extent);
    return text;
}

void append(std::string& text, const std::string& part, const char* separator) {
    if (!text.empty()) text += separator;
    text += part;
}

std::string term_text(const std::string& digit, std::int64_t stride, bool wide) {
    const bool simple = digit.find(' ') == std::string::npos;
    if (wide) return fmt::format("static_cast<I64>({}) * {}", digit, stride);
    const std::string factor = simple ? digit : "(" + digit + ")";
    return stride == 1 ? factor : fmt::format("{} * {}", factor, stride);
}

}  // namespace

IndexText index_text(const IndexMap& map, const std::vector<std::string>& coordinates, bool wide) {
    ensure(map.rank() <= coordinates.size(), "an access has more dimensions than its iteration space");
    IndexText text;
    for (std::size_t d = 0; d < map.rank(); ++d) {
        const std::vector<Atom>& atoms = map.dims[d];
        std::int64_t inner = 1;
        for (std::size_t i = atoms.size(); i-- > 0;) {
            const Atom& atom = atoms[i];
            const std::string digit = digit_text(coordinates[d], inner, atom, i == 0);
            if (atom.stride != 0 && digit != "0")
                append(text.offset, term_text(digit, atom.stride, wide), " + ");
            if (atom.lo > 0) append(text.inside, fmt::format("({}) >= {}", digit, atom.lo), " && ");
            if (atom.hi < atom.extent) append(text.inside, fmt::format("({}) < {}", digit, atom.hi), " && ");
            inner *= atom.extent;
        }
    }
    if (map.offset != 0 || text.offset.empty()) append(text.offset, fmt::format("{}", map.offset), " + ");
    return text;
}

}  // namespace stretto
