#include "base/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace stretto {

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw UserError(path + ": cannot be opened");
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (file.bad()) throw UserError(path + ": cannot be read");
    return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
    const std::string unfinished = fmt::format("{}.{}.tmp", path, ::getpid());
    std::ofstream file(unfinished, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    std::error_code failure;
    if (file) {
        std::filesystem::rename(unfinished, path, failure);
        if (!failure) return;
    }
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    throw UserError(path + ": cannot be written");
}

}  // namespace stretto
