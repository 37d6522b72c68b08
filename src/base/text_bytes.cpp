#include "base/text_bytes.h"

#include <array>
#include <cstdint>

namespace stretto {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

using Decoder = std::array<std::int8_t, 256>;

constexpr Decoder decoder_of(std::string_view digits) {
    Decoder out{};
    for (auto& entry : out) entry = -1;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        out[static_cast<unsigned char>(digits[i])] = static_cast<std::int8_t>(i);
    }
    return out;
}

constexpr Decoder kHexDecoder = decoder_of(kHexDigits);
constexpr Decoder kBase64Decoder = decoder_of(kBase64Digits);

int value_of(const Decoder& decoder, char digit) { return decoder[static_cast<unsigned char>(digit)]; }

void append_hex_byte(std::string& out, unsigned byte) {
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 15];
}

std::optional<char> hex_byte(std::string_view digits) {
    if (digits.size() < 2) return std::nullopt;
    const int high = value_of(kHexDecoder, digits[0]);
    const int low = value_of(kHexDecoder, digits[1]);
    if (high < 0 || low < 0) return std::nullopt;
    return static_cast<char>(high * 16 + low);
}

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
    for (char c : text) {
        if (c == '"' || c == '\\') {
            (out += '\\') += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (static_cast<unsigned char>(c) < 32) {
            out += "\\x";
            append_hex_byte(out, static_cast<unsigned char>(c));
        } else {
            out += c;
        }
    }
}

std::optional<std::string> unescaped(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            out += text[i];
            continue;
        }
        const char escape = ++i < text.size() ? text[i] : '\0';
        if (escape == '"' || escape == '\\') {
            out += escape;
        } else if (escape == 'n') {
            out += '\n';
        } else if (escape == 'x') {
            const auto byte = hex_byte(text.substr(i + 1));
            if (!byte) return std::nullopt;
            out += *byte;
            i += 2;
        } else {
            return std::nullopt;
        }
    }
    return out;
}

void append_hex(std::string& out, const std::vector<std::byte>& bytes) {
    for (std::byte byte : bytes) append_hex_byte(out, std::to_integer<unsigned>(byte));
}

std::optional<std::vector<std::byte>> bytes_of_hex(std::string_view digits) {
    if (digits.size() % 2 != 0) return std::nullopt;
    std::vector<std::byte> out;
    out.reserve(digits.size() / 2);
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        const auto byte = hex_byte(digits.substr(i, 2));
        if (!byte) return std::nullopt;
        out.push_back(static_cast<std::byte>(*byte));
    }
    return out;
}

void append_base64(std::string& out, const std::vector<std::byte>& bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
        unsigned group = 0;
        for (std::size_t j = 0; j < 3; ++j) {
            group = group << 8 | (j < count ? std::to_integer<unsigned>(bytes[i + j]) : 0U);
        }
        for (std::size_t j = 0; j < 4; ++j) {
            out += j <= count ? kBase64Digits[group >> (18 - 6 * j) & 63] : '=';
        }
    }
}

std::optional<std::vector<std::byte>> bytes_of_base64(std::string_view digits) {
    if (digits.size() % 4 != 0) return std::nullopt;
    std::size_t padding = 0;
    while (padding < 2 && digits.size() > padding && digits[digits.size() - 1 - padding] == '=') ++padding;
    std::vector<std::byte> out;
    out.reserve(digits.size() / 4 * 3);
    for (std::size_t i = 0; i < digits.size(); i += 4) {
        const std::size_t missing = i + 4 == digits.size() ? padding : 0;
        unsigned group = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            const int value = j < 4 - missing ? value_of(kBase64Decoder, digits[i + j]) : 0;
            if (value < 0) return std::nullopt;
            group = group << 6 | static_cast<unsigned>(value);
        }
        for (std::size_t j = 0; j < 3 - missing; ++j) {
            out.push_back(static_cast<std::byte>(group >> (16 - 8 * j) & 255));
        }
    }
    return out;
}

}  // namespace stretto
