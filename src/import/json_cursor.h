#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stretto {

/// A place in a JSON document that knows its own path, so that every error names the field that is wrong:
/// "model.json: graph_module.graph.nodes[3].name: expected a string". Children must not outlive their parents.
class JsonCursor {
public:
    /// `document` names the whole, e.g. "model.pt2: models/model.json".
    JsonCursor(const nlohmann::json& value, std::string_view document) : value_(&value), key_(document) {}

    [[nodiscard]] bool has(std::string_view key) const;  ///< Present and not null.
    [[nodiscard]] JsonCursor at(std::string_view key) const;
    [[nodiscard]] std::string text() const;
    [[nodiscard]] std::int64_t integer() const;
    [[nodiscard]] double number()
        const;  ///< Accepts "Infinity", "-Infinity" and "NaN" as PyTorch writes them.
    [[nodiscard]] bool flag() const;

    /// Calls `visit` with every element of an array.
    void each(const std::function<void(const JsonCursor&)>& visit) const;
    /// Calls `visit` with the name and the value of every member of an object, in the order of their names.
    void members(const std::function<void(const std::string&, const JsonCursor&)>& visit) const;
    /// The name of the only member: the kind of a tagged union.
    [[nodiscard]] std::string tag() const;

    [[noreturn]] void fail(std::string_view problem) const;

private:
    JsonCursor(const nlohmann::json& value, const JsonCursor& parent, std::string_view key,
               std::int64_t index)
        : value_(&value), parent_(&parent), key_(key), index_(index) {}
    [[nodiscard]] std::string path() const;

    const nlohmann::json* value_;
    const JsonCursor* parent_ = nullptr;
    std::string_view key_;
    std::int64_t index_ = -1;
};

}  // namespace stretto
