#include "backends/cuda/kernel_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>

#include "base/cache_folder.h"
#include "base/hash.h"

namespace stretto::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 32;

/// A file is: hash of the rest, length of the log, log, cubin.
std::string packed(const KernelCache::Entry& entry) {
    const auto log_size = static_cast<std::uint64_t>(entry.log.size());
    std::string rest(reinterpret_cast<const char*>(&log_size), sizeof(log_size));
    rest += entry.log;
    rest.append(reinterpret_cast<const char*>(entry.cubin.data()), entry.cubin.size());
    return content_hash(rest) + rest;
}

std::optional<KernelCache::Entry> unpacked(const std::string& bytes) {
    std::uint64_t log_size = 0;
    if (bytes.size() < kHashDigits + sizeof(log_size)) return std::nullopt;
    const std::string_view rest = std::string_view(bytes).substr(kHashDigits);
    if (content_hash(rest) != bytes.substr(0, kHashDigits)) return std::nullopt;
    rest.copy(reinterpret_cast<char*>(&log_size), sizeof(log_size));
    const std::string_view content = rest.substr(sizeof(log_size));
    if (log_size > content.size()) return std::nullopt;
    KernelCache::Entry entry;
    entry.log = content.substr(0, log_size);
    const auto* cubin = reinterpret_cast<const std::byte*>(content.data());
    entry.cubin.assign(cubin + log_size, cubin + content.size());
    return entry;
}

/// Writes a file under another name first, so that a reader never sees a part of it.
void write_whole(const fs::path& path, const std::string& bytes) {
    const fs::path part = path.string() + fmt::format(".{}.part", getpid());
    std::error_code ignored;
    {
        std::ofstream file(part, std::ios::binary);
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        file.close();
        if (file.fail()) {
            fs::remove(part, ignored);
            return;
        }
    }
    fs::rename(part, path, ignored);
}

}  // namespace

KernelCache::KernelCache() : folder_(cache_folder()) {}

std::optional<KernelCache::Entry> KernelCache::find(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    std::ifstream file(folder_ / (key + ".kernel"), std::ios::binary);
    if (!file) return std::nullopt;
    return unpacked({std::istreambuf_iterator<char>(file), {}});
}

void KernelCache::store(const std::string& key, const Entry& entry, const std::string& source) const {
    if (folder_.empty()) return;
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) return;
    write_whole(folder_ / (key + ".cu"), source);
    write_whole(folder_ / (key + ".kernel"), packed(entry));
}

}  // namespace stretto::cuda
