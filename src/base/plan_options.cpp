#include "base/plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <variant>

#include "base/error.h"

namespace stretto {
namespace {

using Member = std::variant<bool PlanOptions::*, double PlanOptions::*, std::int32_t PlanOptions::*>;

struct Choice {
    std::string_view name;
    Member member;
    double least = 0;
};

constexpr std::array<Choice, 9> kChoices{{{"stream", &PlanOptions::stream},
                                          {"words", &PlanOptions::words},
                                          {"words_up_to", &PlanOptions::words_up_to},
                                          {"recompute_up_to", &PlanOptions::recompute_up_to},
                                          {"workers", &PlanOptions::workers},
                                          {"attention_splits", &PlanOptions::attention_splits},
                                          {"product_parts", &PlanOptions::product_parts, 1},
                                          {"task_panels", &PlanOptions::task_panels, 1},
                                          {"product_strips", &PlanOptions::product_strips}}};

std::string known_names() {
    std::vector<std::string_view> names;
    for (const Choice& choice : kChoices) names.push_back(choice.name);
    return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void refuse(const Choice& choice, std::string_view value, const std::string& expected) {
    throw UserError(fmt::format("plan option {}={}: the value must be {}", choice.name, value, expected));
}

void read(const Choice& choice, std::string_view text, bool& value) {
    if (text != "on" && text != "off") refuse(choice, text, "on or off");
    value = text == "on";
}

template <class Number>
void read(const Choice& choice, std::string_view text, Number& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && static_cast<double>(value) >= choice.least) return;
    const bool is_integer = std::is_integral_v<Number>;
    refuse(choice, text, fmt::format("a {}number of at least {}", is_integer ? "whole " : "", choice.least));
}

std::string written(bool value) { return value ? "on" : "off"; }
template <class Number>
std::string written(Number value) {
    return fmt::format("{}", value);
}

}  // namespace

std::string to_text(const PlanOptions& options) {
    std::vector<std::string> parts;
    const PlanOptions usual;
    for (const Choice& choice : kChoices) {
        std::visit(
            [&](auto member) {
                if (options.*member == usual.*member) return;
                parts.push_back(fmt::format("{}={}", choice.name, written(options.*member)));
            },
            choice.member);
    }
    return fmt::format("{}", fmt::join(parts, ","));
}

PlanOptions parse_plan_options(std::string_view text) {
    PlanOptions options;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(part.size() + 1, text.size()));
        const std::size_t at = std::min(part.find('='), part.size());
        const auto* choice = std::find_if(kChoices.begin(), kChoices.end(), [&](const Choice& each) {
            return each.name == part.substr(0, at);
        });
        if (choice == kChoices.end() || at == part.size()) {
            throw UserError(fmt::format("plan option '{}': write NAME=VALUE, where NAME is one of {}", part,
                                        known_names()));
        }
        std::visit([&](auto member) { read(*choice, part.substr(at + 1), options.*member); }, choice->member);
    }
    return options;
}

PlanOptions without(const std::vector<std::string>& names, PlanOptions options) {
    for (const std::string& name : names) {
        if (name == "stream") {
            options.stream = false;
        } else if (name == "words") {
            options.words = false;
        } else {
            throw UserError(fmt::format("nothing called '{}' can be left out; known: stream, words", name));
        }
    }
    return options;
}

}  // namespace stretto
