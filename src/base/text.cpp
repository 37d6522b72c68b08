#include "base/text.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text_bytes.h"

namespace stretto {
namespace {

constexpr std::size_t kHexLimit = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

void Writer::append(double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text_.append(digits.data(), end);
}

void Writer::append_integer(std::int64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text_.append(digits.data(), end);
}

void Writer::append(Label token) {
    text_ += token.sigil;
    append_integer(token.number);
}

void Writer::append(Quoted token) {
    text_ += '"';
    append_escaped(text_, token.text);
    text_ += '"';
}

void Writer::append(Blob token) {
    const bool small = token.bytes.size() <= kHexLimit;
    text_ += small ? "hex \"" : "base64 \"";
    (small ? append_hex : append_base64)(text_, token.bytes);
    text_ += '"';
}

void Writer::append(Range range) {
    append_integer(range.begin);
    text_ += "..";
    append_integer(range.end);
}

void Writer::append(const Shape& shape) { append_extents(shape.data(), shape.size()); }

void Writer::append_extents(const std::int64_t* extents, std::size_t count) {
    text_ += '[';
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) text_ += ", ";
        append_integer(extents[i]);
    }
    text_ += ']';
}

void Writer::open() {
    text_ += " {";
    ++indent_;
}

void Writer::close() {
    --indent_;
    line("}");
}

std::string Writer::take_document() {
    if (!text_.empty()) text_ += '\n';
    return std::move(text_);
}

Reader::Reader(std::string_view text, std::string_view what) : text_(text), what_(what) { skip_space(); }

void Reader::skip_space() {
    while (at_ < text_.size()) {
        if (is_space(text_[at_])) {
            ++at_;
        } else if (text_[at_] == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else {
            return;
        }
    }
}

void Reader::advance(std::size_t count) {
    at_ += count;
    skip_space();
}

void Reader::expect_end() {
    if (!at_end()) fail("the end of the text");
}

bool Reader::next_is_token(std::string_view token) const {
    if (text_.compare(at_, token.size(), token) != 0) return false;
    const std::size_t end = at_ + token.size();
    return !is_word(token.back()) || end == text_.size() || !is_word(text_[end]);
}

bool Reader::accept(std::string_view token) {
    if (!next_is_token(token)) return false;
    advance(token.size());
    return true;
}

void Reader::expect(std::string_view token) {
    if (!accept(token)) fail("'" + std::string(token) + "'");
}

std::string_view Reader::word() {
    if (at_end() || !is_letter(text_[at_])) fail("a word");
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    const std::string_view out = text_.substr(at_, end - at_);
    advance(out.size());
    return out;
}

std::int64_t Reader::integer() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("an integer of 64 bits");
    advance(static_cast<std::size_t>(end - text_.data()) - at_);
    return value;
}

std::int64_t Reader::integer(std::int64_t lowest, std::int64_t highest) {
    const std::size_t start = at_;
    const std::int64_t value = integer();
    if (value < lowest || value > highest) {
        fail_at(start, "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
    }
    return value;
}

double Reader::number() {
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    advance(static_cast<std::size_t>(end - text_.data()) - at_);
    return value;
}

std::string Reader::quoted() {
    if (at_end() || text_[at_] != '"') fail("a string in quotation marks");
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] != '"') fail("a string that ends on its line");
    const auto out = unescaped(text_.substr(at_ + 1, end - at_ - 1));
    if (!out) fail("a string with the escapes \\\\, \\\", \\n and \\xNN only");
    advance(end + 1 - at_);
    return *out;
}

bool Reader::next_is_blob() const { return next_is_token("hex") || next_is_token("base64"); }

std::vector<std::byte> Reader::blob() {
    const bool hex = accept("hex");
    if (!hex && !accept("base64")) fail("'hex' or 'base64'");
    const std::size_t start = at_;
    const std::string digits = quoted();
    auto out = hex ? bytes_of_hex(digits) : bytes_of_base64(digits);
    if (!out) fail_at(start, hex ? "pairs of hexadecimal digits" : "groups of four base64 digits");
    return std::move(*out);
}

Range Reader::range() {
    const std::int64_t begin = integer();
    expect("..");
    return {begin, integer()};
}

Shape Reader::shape() {
    Shape out;
    expect("[");
    if (accept("]")) return out;
    do out.push_back(integer());
    while (accept(","));
    expect("]");
    return out;
}

bool Reader::next_is_integer() const {
    if (at_end()) return false;
    return is_digit(text_[at_]) || (text_[at_] == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]));
}

bool Reader::next_is_label(char sigil) const {
    if (at_ + 1 >= text_.size() || text_[at_] != sigil) return false;
    return is_digit(text_[at_ + 1]) || text_[at_ + 1] == '-';
}

std::int32_t Reader::number_of_label(char sigil, std::int64_t lowest, std::int64_t highest) {
    if (!next_is_label(sigil)) fail(std::string("a label such as ") + sigil + "0");
    ++at_;
    return static_cast<std::int32_t>(integer(lowest, highest));
}

void Reader::expect_label(char sigil, std::size_t number) {
    const std::size_t start = at_;
    if (!next_is_label(sigil) || static_cast<std::size_t>(number_of_label(sigil)) != number) {
        fail_at(start, "'" + (sigil + std::to_string(number)) + "', the next one of its table");
    }
}

void Reader::fail(std::string_view expected) const { fail_at(at_, expected); }

void Reader::fail_at(std::size_t position, std::string_view expected) const {
    constexpr std::size_t kShown = 24;
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
    const std::string_view rest = text_.substr(position);
    std::size_t shown = 0;
    while (shown < std::min(rest.size(), kShown) && is_word(rest[shown])) ++shown;
    if (shown == 0) shown = std::min<std::size_t>(rest.size(), 1);

    std::string message(what_);
    message += ", line " + std::to_string(line) + ", column " + std::to_string(position - line_start + 1);
    message += ": expected ";
    message += expected;
    message += ", found ";
    message += rest.empty() ? "the end of the text" : "'" + std::string(rest.substr(0, shown)) + "'";
    throw UserError(message);
}

}  // namespace stretto
