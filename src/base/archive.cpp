#include "base/archive.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zip.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace stretto {
namespace {

/// 1980-01-01 00:00, the earliest moment that a zip file can name.
constexpr zip_uint16_t kNoTime = 0;
constexpr zip_uint16_t kNoDate = (1 << 5) | 1;

struct Discard {
    void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseFile {
    void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using File = std::unique_ptr<zip_file_t, CloseFile>;

std::string text_of(int code) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    return text;
}

void add(zip_t* archive, const ArchiveEntry& entry) {
    zip_source_t* source = zip_source_buffer(archive, entry.bytes.data(), entry.bytes.size(), 0);
    const zip_int64_t index =
        source == nullptr ? -1 : zip_file_add(archive, entry.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        zip_source_free(source);
        throw UserError(fmt::format("{}: {}", entry.name, zip_strerror(archive)));
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive, at, ZIP_CM_STORE, 0);
    zip_file_set_dostime(archive, at, kNoTime, kNoDate, 0);
}

}  // namespace

struct ArchiveReader::Handle {
    Archive archive;

    [[nodiscard]] zip_stat_t stat(const std::string& path, const std::string& name) const {
        zip_stat_t stat;
        zip_stat_init(&stat);
        if (zip_stat(archive.get(), name.c_str(), 0, &stat) != 0) {
            throw UserError(fmt::format("{}: entry '{}' is missing", path, name));
        }
        return stat;
    }
};

ArchiveReader::ArchiveReader(std::string path, std::string_view made_by)
    : path_(std::move(path)), handle_(std::make_unique<Handle>()) {
    int code = 0;
    handle_->archive.reset(zip_open(path_.c_str(), ZIP_RDONLY, &code));
    if (handle_->archive) return;
    if (code == ZIP_ER_NOENT) throw UserError(fmt::format("{}: there is no such file", path_));
    throw UserError(fmt::format("{}: cannot be read as an archive ({}); {}", path_, text_of(code), made_by));
}

ArchiveReader::~ArchiveReader() = default;
ArchiveReader::ArchiveReader(ArchiveReader&&) noexcept = default;
ArchiveReader& ArchiveReader::operator=(ArchiveReader&&) noexcept = default;

std::vector<std::string> ArchiveReader::names() const {
    std::vector<std::string> names;
    const zip_int64_t count = zip_get_num_entries(handle_->archive.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
        const char* name = zip_get_name(handle_->archive.get(), static_cast<zip_uint64_t>(i), 0);
        if (name != nullptr) names.emplace_back(name);
    }
    return names;
}

bool ArchiveReader::contains(const std::string& name) const {
    return zip_name_locate(handle_->archive.get(), name.c_str(), 0) >= 0;
}

std::size_t ArchiveReader::size(const std::string& name) const { return handle_->stat(path_, name).size; }

std::string ArchiveReader::text(const std::string& name) const {
    std::string text(size(name), '\0');
    read(name, std::as_writable_bytes(std::span(text)));
    return text;
}

void ArchiveReader::read(const std::string& name, std::span<std::byte> target) const {
    ensure(target.size() == size(name), "ArchiveReader::read: the target has another size than the entry");
    const File file(zip_fopen(handle_->archive.get(), name.c_str(), 0));
    if (!file) {
        throw UserError(fmt::format("{}: entry '{}' cannot be read: {}", path_, name,
                                    zip_strerror(handle_->archive.get())));
    }
    std::size_t done = 0;
    while (done < target.size()) {
        const zip_int64_t count = zip_fread(file.get(), target.data() + done, target.size() - done);
        if (count <= 0) {
            const char* problem = count < 0 ? zip_file_strerror(file.get()) : "it ends early";
            throw UserError(fmt::format("{}: entry '{}' is damaged: {}", path_, name, problem));
        }
        done += static_cast<std::size_t>(count);
    }
    // libzip compares the check sum when it meets the end of the entry.
    std::byte beyond{};
    if (zip_fread(file.get(), &beyond, 1) != 0) {
        throw UserError(fmt::format("{}: entry '{}' is damaged: wrong check sum", path_, name));
    }
}

void write_archive(const std::string& path, std::span<const ArchiveEntry> entries) {
    const std::string unfinished = fmt::format("{}.{}.tmp", path, ::getpid());
    int code = 0;
    Archive archive(zip_open(unfinished.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
    if (!archive) throw UserError(fmt::format("{}: cannot be written: {}", path, text_of(code)));
    for (const ArchiveEntry& entry : entries) add(archive.get(), entry);
    if (zip_close(archive.get()) != 0) {
        throw UserError(fmt::format("{}: cannot be written: {}", path, zip_strerror(archive.get())));
    }
    static_cast<void>(archive.release());  // zip_close freed it
    std::error_code failure;
    std::filesystem::rename(unfinished, path, failure);
    if (failure) {
        std::remove(unfinished.c_str());
        throw UserError(fmt::format("{}: cannot be written: {}", path, failure.message()));
    }
}

}  // namespace stretto
