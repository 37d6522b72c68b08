#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stretto::cuda {

/// Compiled programs on disk, one file each, named by a hash of everything that goes into them, with the source
/// beside it. Lives in $STRETTO_CACHE_DIR, else $XDG_CACHE_HOME/stretto, else ~/.cache/stretto. A folder that cannot
/// be written means no cache, not an error.
class KernelCache {
public:
    struct Entry {
        std::vector<std::byte> cubin;
        std::string log;
    };

    KernelCache();
    explicit KernelCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    /// The entry of that key; none if it is missing or damaged.
    [[nodiscard]] std::optional<Entry> find(const std::string& key) const;
    /// Other processes see the whole entry or none.
    void store(const std::string& key, const Entry& entry, const std::string& source) const;

private:
    std::filesystem::path folder_;
};

}  // namespace stretto::cuda
