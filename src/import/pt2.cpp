#include <fmt/format.h>

#include <cstring>
#include <map>
#include <utility>

#include "base/archive.h"
#include "base/error.h"
#include "import/import.h"
#include "import/program.h"

namespace stretto {
namespace {

struct Bytes {
    std::shared_ptr<std::byte> data;
    std::size_t size = 0;
};

/// Elements that lie between the first one and the last one of a strided tensor, both included.
std::int64_t span_of(const schema::TensorMeta& meta) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < meta.shape.size(); ++d) {
        if (meta.shape[d] == 0) return 0;
        last += (meta.shape[d] - 1) * meta.strides[d];
    }
    return last + 1;
}

bool is_dense(const schema::TensorMeta& meta) {
    const Shape wanted = row_major_strides(meta.shape);
    for (std::size_t d = 0; d < meta.shape.size(); ++d) {
        if (meta.shape[d] != 1 && meta.strides[d] != wanted[d]) return false;
    }
    return true;
}

/// A row-major copy of a strided tensor.
Bytes densified(const std::byte* from, const schema::TensorMeta& meta, std::size_t item) {
    const std::int64_t count = volume(meta.shape);
    Bytes to{std::shared_ptr<std::byte>(new std::byte[static_cast<std::size_t>(count) * item],
                                        std::default_delete<std::byte[]>()),
             static_cast<std::size_t>(count) * item};
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i, offset = 0;
        for (std::size_t d = meta.shape.size(); d-- > 0;) {
            offset += rest % meta.shape[d] * meta.strides[d];
            rest /= meta.shape[d];
        }
        std::memcpy(to.data.get() + static_cast<std::size_t>(i) * item,
                    from + static_cast<std::size_t>(offset) * item, item);
    }
    return to;
}

/// The parts of a .pt2 archive. All entries lie below one folder, which is named after the file.
class Pt2 {
public:
    explicit Pt2(const std::string& path) : archive_(path, "torch.export.save writes such files") {
        constexpr std::string_view kModels = "models/", kEnding = ".json";
        for (const std::string& name : archive_.names()) {
            const std::size_t at = name.rfind(kModels);
            if (at == std::string::npos || !name.ends_with(kEnding)) continue;
            root_ = name.substr(0, at);
            const std::size_t begin = at + kModels.size();
            model_ = name.substr(begin, name.size() - begin - kEnding.size());
            if (model_ == "model") break;
        }
        if (model_.empty()) {
            throw UserError(
                fmt::format("{}: no model in it (models/*.json); torch.export.save writes such files", path));
        }
        const std::string order = root_ + "byteorder";
        if (archive_.contains(order) && archive_.text(order) != "little") {
            throw UserError(
                fmt::format("{}: its tensors are stored {}-endian, only little-endian is supported", path,
                            archive_.text(order)));
        }
    }

    schema::Program program() const {
        const std::string entry = root_ + "models/" + model_ + ".json";
        return schema::parse_program(archive_.text(entry), document(entry));
    }

    /// Adds those tensors of data/`folder` that `program` has as inputs.
    void read_tensors(const std::string& folder, const schema::Program& program,
                      std::map<std::string, HostTensor>& out) {
        const std::string base = root_ + "data/" + folder + "/";
        const std::string config = base + model_ + "_" + folder + "_config.json";
        if (!archive_.contains(config)) return;
        const auto payloads = schema::parse_payloads(archive_.text(config), document(config));
        for (const schema::InputSpec& input : program.inputs) {
            const auto found = payloads.find(input.target);
            if (input.target.empty() || found == payloads.end()) continue;
            out.emplace(input.target, tensor(input.target, base + found->second.path, found->second));
        }
    }

private:
    std::string document(const std::string& entry) const { return archive_.path() + ": " + entry; }

    const Bytes& bytes_of_entry(const std::string& entry) {
        Bytes& bytes = read_[entry];
        if (bytes.data) return bytes;
        bytes.size = archive_.size(entry);
        bytes.data.reset(new std::byte[std::max<std::size_t>(bytes.size, 1)],
                         std::default_delete<std::byte[]>());
        archive_.read(entry, {bytes.data.get(), bytes.size});
        return bytes;
    }

    HostTensor tensor(const std::string& name, const std::string& entry, const schema::Payload& payload) {
        if (payload.pickled) {
            throw UserError(
                fmt::format("{}: tensor '{}' is pickled; save dense tensors only", archive_.path(), name));
        }
        const schema::TensorMeta& meta = payload.meta;
        const DType dtype =
            schema::to_dtype(meta.dtype, fmt::format("{}: tensor '{}'", archive_.path(), name));
        const std::size_t item = size_of(dtype);
        const Bytes& all = bytes_of_entry(entry);
        const std::size_t need = static_cast<std::size_t>(meta.offset + span_of(meta)) * item;
        if (need > all.size) {
            throw UserError(fmt::format("{}: tensor '{}' needs {} bytes of entry '{}', which has {}",
                                        archive_.path(), name, need, entry, all.size));
        }
        std::byte* first = all.data.get() + static_cast<std::size_t>(meta.offset) * item;
        const std::size_t size = static_cast<std::size_t>(volume(meta.shape)) * item;
        if (is_dense(meta))
            return {dtype, meta.shape, std::shared_ptr<const std::byte>(all.data, first), size};
        return {dtype, meta.shape, densified(first, meta, item).data, size};
    }

    ArchiveReader archive_;
    std::string root_;
    std::string model_;
    std::map<std::string, Bytes> read_;  ///< tied tensors share an entry
};

}  // namespace

Imported import_pt2(const std::string& path) {
    Pt2 archive(path);
    const schema::Program program = archive.program();
    std::map<std::string, HostTensor> tensors;
    archive.read_tensors("weights", program, tensors);
    archive.read_tensors("constants", program, tensors);
    try {
        return lower_program(program, std::move(tensors));
    } catch (const UserError& error) {
        throw UserError(fmt::format("{}: {}", path, error.what()));
    }
}

}  // namespace stretto
