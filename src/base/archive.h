#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

/// Reads the entries of a zip file. Every error is a UserError that names the file and the entry.
class ArchiveReader {
public:
    /// `made_by` ends the message for a file that is no zip archive, e.g. "torch.export.save writes such files".
    ArchiveReader(std::string path, std::string_view made_by);
    ~ArchiveReader();
    ArchiveReader(ArchiveReader&&) noexcept;
    ArchiveReader& operator=(ArchiveReader&&) noexcept;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::vector<std::string> names() const;  ///< In the order of the file.
    [[nodiscard]] bool contains(const std::string& name) const;
    [[nodiscard]] std::size_t size(const std::string& name) const;
    [[nodiscard]] std::string text(const std::string& name) const;
    /// Reads a whole entry; its check sum must be right. Requires: target.size() == size(name).
    void read(const std::string& name, std::span<std::byte> target) const;

private:
    struct Handle;
    std::string path_;
    std::unique_ptr<Handle> handle_;
};

/// One file of an archive to be written. The bytes are not copied.
struct ArchiveEntry {
    std::string name;
    std::span<const std::byte> bytes;
};

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// Writes a zip file of one or more uncompressed entries in the given order. The same entries give the same bytes: no time stamps.
/// The file appears under `path` complete or not at all. Throws UserError where it cannot be written.
void write_archive(const std::string& path, std::span<const ArchiveEntry> entries);

}  // namespace stretto
