#pragma once

#include <string>
#include <vector>

namespace stretto {

/// A library opened at run time; stays open until the process ends.
class SharedLibrary {
public:
    /// Opens the first of `candidates` that loads. `open()` tells whether one did.
    explicit SharedLibrary(const std::vector<std::string>& candidates);

    [[nodiscard]] bool open() const { return handle_ != nullptr; }
    [[nodiscard]] const std::string& path() const { return path_; }

    /// Sets `function` to the symbol. Throws UserError naming library and symbol if it is missing.
    template <class Function>
    void bind(Function*& function, const char* symbol) const {
        function = reinterpret_cast<Function*>(find(symbol));
    }

private:
    [[nodiscard]] void* find(const char* symbol) const;

    void* handle_ = nullptr;
    std::string path_;
};

}  // namespace stretto
