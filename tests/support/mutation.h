#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "base/error.h"

namespace stretto {

/// `text` with a few characters removed, replaced, inserted or repeated.
inline std::string mutated(std::string text, std::mt19937& random) {
    constexpr std::string_view kCharacters = "0123456789-.,:[](){}\"\\#%@=>xabret \n";
    const auto below = [&](std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    const std::size_t edits = 1 + below(3);
    for (std::size_t i = 0; i < edits && !text.empty(); ++i) {
        const std::size_t at = below(text.size());
        const char character = kCharacters[below(kCharacters.size())];
        switch (below(4)) {
            case 0:
                text.erase(at, 1 + below(12));
                break;
            case 1:
                text[at] = character;
                break;
            case 2:
                text.insert(at, 1, character);
                break;
            default:
                text.insert(at, text.substr(below(text.size()), 1 + below(40)));
                break;
        }
    }
    return text;
}

/// Parses damaged copies of `text`. Each is refused with a UserError, or is a value whose text reads back as itself.
template <class Parse, class Print>
void expect_survives_damage(const std::string& text, unsigned seed, Parse parse, Print print) {
    std::mt19937 random(seed);
    for (int round = 0; round < 60; ++round) {
        const std::string damaged = mutated(text, random);
        try {
            const std::string printed = print(parse(damaged));
            EXPECT_EQ(print(parse(printed)), printed) << "damaged text:\n" << damaged;
        } catch (const UserError& error) {
            EXPECT_NE(std::string_view(error.what()).find("expected"), std::string_view::npos)
                << error.what();
        }
    }
}

}  // namespace stretto
