#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/box.h"
#include "base/ids.h"

namespace stretto {

/// A reference into a numbered table in a text form: a letter or '%', then the number, e.g. b12.
struct Label {
    char sigil;
    std::int64_t number;
};

inline Label label(ValueId id) { return {'%', id.value}; }
inline Label label(BufferId id) { return {'b', id.value}; }
inline Label label(RegionId id) { return {'r', id.value}; }
inline Label label(TaskId id) { return {'t', id.value}; }
inline Label label(EventId id) { return {'e', id.value}; }

/// A string between quotation marks, with escapes where it needs them.
struct Quoted {
    std::string_view text;
};

/// Raw bytes: `hex "..."` up to 64 bytes, `base64 "..."` above.
struct Blob {
    const std::vector<std::byte>& bytes;
};

/// Appends tokens of a text form to one string. Nothing is inserted between tokens; `line` starts an indented line.
class Writer {
public:
    template <class... Tokens>
    Writer& put(const Tokens&... tokens) {
        (append(tokens), ...);
        return *this;
    }

    template <class... Tokens>
    Writer& line(const Tokens&... tokens) {
        if (!text_.empty()) text_ += '\n';
        text_.append(indent_ * 4, ' ');
        return put(tokens...);
    }

    /// Writes " {" and indents the lines that follow, until `close`.
    void open();
    void close();

    [[nodiscard]] const std::string& text() const { return text_; }
    /// The text, which ends with a line break where it has several lines.
    [[nodiscard]] std::string take_document();

private:
    void append(std::string_view token) { text_ += token; }
    void append(char token) { text_ += token; }
    void append(double value);  ///< Shortest digits that read back as the same value; inf, -inf, nan.
    void append(Label token);
    void append(Quoted token);
    void append(Blob token);
    void append(Range range);         ///< begin..end
    void append(const Shape& shape);  ///< [2, 3]
    template <std::size_t N>
    void append(const std::array<std::int64_t, N>& shape) {
        append_extents(shape.data(), N);
    }
    template <std::integral Integer>
    void append(Integer value) {
        append_integer(static_cast<std::int64_t>(value));
    }
    void append_integer(std::int64_t value);
    void append_extents(const std::int64_t* extents, std::size_t count);

    std::string text_;
    std::size_t indent_ = 0;
};

/// Reads the tokens of a text form. White space, line breaks and comments (# to the end of the line) separate tokens
/// and mean nothing else. Every error is a UserError: `what`, line, column, what was expected, what was found.
class Reader {
public:
    /// `text` must outlive the reader. `what` names it in errors, e.g. "plan text".
    Reader(std::string_view text, std::string_view what);

    [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
    void expect_end();

    /// Takes `token` where it comes next. A word matches whole words only.
    bool accept(std::string_view token);
    void expect(std::string_view token);

    [[nodiscard]] bool next_is_token(std::string_view token) const;
    std::string_view word();  ///< letters, digits and '_', not starting with a digit
    std::int64_t integer();
    std::int64_t integer(std::int64_t lowest, std::int64_t highest);
    double number();
    std::string quoted();
    [[nodiscard]] bool next_is_blob() const;  ///< 'hex' or 'base64'
    std::vector<std::byte> blob();
    Range range();
    Shape shape();
    template <std::size_t N>
    std::array<std::int64_t, N> extents() {
        std::array<std::int64_t, N> out{};
        expect("[");
        for (std::size_t i = 0; i < N; ++i) {
            if (i > 0) expect(",");
            out[i] = integer();
        }
        expect("]");
        return out;
    }

    [[nodiscard]] bool next_is_integer() const;

    /// The number of a label. It fits 32 bits and may be negative (an id that is not valid).
    [[nodiscard]] bool next_is_label(char sigil) const;
    std::int32_t number_of_label(char sigil, std::int64_t lowest = std::numeric_limits<std::int32_t>::min(),
                                 std::int64_t highest = std::numeric_limits<std::int32_t>::max());
    /// The label that defines entry `number` of a table: entries come in order.
    void expect_label(char sigil, std::size_t number);

    template <class AnyId>
    AnyId id() {
        return AnyId(number_of_label(label(AnyId()).sigil));
    }
    template <class AnyId>
    [[nodiscard]] bool next_is() const {
        return next_is_label(label(AnyId()).sigil);
    }

    /// Fails at the token that comes next.
    [[noreturn]] void fail(std::string_view expected) const;

private:
    void skip_space();
    void advance(std::size_t count);
    [[noreturn]] void fail_at(std::size_t position, std::string_view expected) const;

    std::string_view text_;
    std::string_view what_;
    std::size_t at_ = 0;
};

/// Names of an enumeration's values, in their order.
template <class Enum, std::size_t N>
struct Names {
    std::string_view what;  ///< e.g. "a role"
    std::array<std::string_view, N> names;

    [[nodiscard]] std::string_view operator[](Enum value) const {
        return names.at(static_cast<std::size_t>(value));
    }
    [[nodiscard]] std::optional<Enum> find(std::string_view name) const {
        for (std::size_t i = 0; i < N; ++i) {
            if (names[i] == name) return static_cast<Enum>(i);
        }
        return std::nullopt;
    }
    Enum read(Reader& reader) const {
        for (std::size_t i = 0; i < N; ++i) {
            if (reader.accept(names[i])) return static_cast<Enum>(i);
        }
        std::string expected(what);
        for (std::size_t i = 0; i < N; ++i) (expected += i == 0 ? ": " : ", ") += names[i];
        reader.fail(expected);
    }
};

}  // namespace stretto
