#include "import/json_cursor.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stretto {

std::string JsonCursor::path() const {
    if (parent_ == nullptr) return std::string(key_) + ":";
    const std::string above = parent_->path();
    if (index_ >= 0) return fmt::format("{}[{}]", above, index_);
    return above + (parent_->parent_ == nullptr ? " " : ".") + std::string(key_);
}

void JsonCursor::fail(std::string_view problem) const {
    throw UserError(fmt::format("{}{} {}", path(), parent_ == nullptr ? "" : ":", problem));
}

bool JsonCursor::has(std::string_view key) const {
    const auto found = value_->is_object() ? value_->find(key) : value_->end();
    return found != value_->end() && !found->is_null();
}

JsonCursor JsonCursor::at(std::string_view key) const {
    if (!value_->is_object()) fail("expected an object");
    const auto found = value_->find(key);
    if (found == value_->end()) fail(fmt::format("field '{}' is missing", key));
    return {*found, *this, key, -1};
}

std::string JsonCursor::text() const {
    if (!value_->is_string()) fail("expected a string");
    return value_->get<std::string>();
}

std::int64_t JsonCursor::integer() const {
    if (!value_->is_number_integer()) fail("expected an integer");
    return value_->get<std::int64_t>();
}

double JsonCursor::number() const {
    if (value_->is_number()) return value_->get<double>();
    const std::string word = value_->is_string() ? value_->get<std::string>() : "";
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    fail("expected a number");
}

bool JsonCursor::flag() const {
    if (!value_->is_boolean()) fail("expected true or false");
    return value_->get<bool>();
}

void JsonCursor::each(const std::function<void(const JsonCursor&)>& visit) const {
    if (!value_->is_array()) fail("expected an array");
    std::int64_t index = 0;
    for (const auto& element : *value_) visit({element, *this, "", index++});
}

void JsonCursor::members(const std::function<void(const std::string&, const JsonCursor&)>& visit) const {
    if (!value_->is_object()) fail("expected an object");
    for (auto it = value_->begin(); it != value_->end(); ++it) visit(it.key(), {*it, *this, it.key(), -1});
}

std::string JsonCursor::tag() const {
    if (!value_->is_object() || value_->size() != 1) fail("expected an object with one field");
    return value_->begin().key();
}

}  // namespace stretto
