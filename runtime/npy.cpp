#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <fstream>
#include <memory>
#include <regex>
#include <string>

#include "base/error.h"
#include "runtime/tensors.h"

namespace stretto {
namespace {

// The format is described in numpy/lib/format.py: magic, version, length of the header, then the header: the text of
// a Python dictionary, padded with spaces so that the data that follows is aligned.
constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kAlignment = 64;

struct NpyType {
    std::string_view descr;
    DType dtype;
};
constexpr std::array<NpyType, 7> kTypes{{{"|b1", DType::Bool},
                                         {"|u1", DType::U8},
                                         {"<i4", DType::I32},
                                         {"<i8", DType::I64},
                                         {"<f2", DType::F16},
                                         {"<f4", DType::F32},
                                         {"<f8", DType::F64}}};

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
    throw UserError(fmt::format("{}: {}", path, problem));
}

/// The first group of `pattern` in `header`.
std::string field(const std::string& header, const char* pattern, const char* what, const std::string& path) {
    std::smatch match;
    if (!std::regex_search(header, match, std::regex(pattern))) {
        fail(path, fmt::format("the .npy header has no readable '{}'", what));
    }
    return match[1];
}

DType dtype_of(const std::string& descr, const std::string& path) {
    std::vector<std::string_view> known;
    for (const NpyType& type : kTypes) {
        if (type.descr == descr) return type.dtype;
        known.push_back(type.descr);
    }
    fail(path, fmt::format("elements of type '{}' are not supported; supported: {}", descr,
                           fmt::join(known, ", ")));
}

Shape shape_of(const std::string& list, const std::string& path) {
    Shape shape;
    const std::regex number("[0-9]+");
    for (auto at = std::sregex_iterator(list.begin(), list.end(), number); at != std::sregex_iterator();
         ++at) {
        if (at->length() > 12) fail(path, fmt::format("extent {} is too large", at->str()));
        shape.push_back(std::stoll(at->str()));
    }
    return shape;
}

std::string read_header(std::istream& file, const std::string& path) {
    std::string start(8, '\0');
    if (!file.read(start.data(), 8) || !start.starts_with(kMagic)) fail(path, "is not a .npy file");
    const int length_bytes = start[6] == 1 ? 2 : 4;
    std::array<unsigned char, 4> length{};
    file.read(reinterpret_cast<char*>(length.data()), length_bytes);
    std::string header(
        length[0] | length[1] << 8 | std::size_t{length[2]} << 16 | std::size_t{length[3]} << 24, '\0');
    if (header.size() > 65536 || !file.read(header.data(), static_cast<std::streamsize>(header.size()))) {
        fail(path, "the .npy header is damaged");
    }
    return header;
}

}  // namespace

HostTensor read_npy(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) fail(path, "cannot be opened");
    const auto file_size = static_cast<std::size_t>(file.tellg());
    file.seekg(0);
    const std::string header = read_header(file, path);
    if (field(header, "'fortran_order': *(True|False)", "fortran_order", path) == "True") {
        fail(path, "is column-major; save numpy.ascontiguousarray(x) instead");
    }
    HostTensor tensor;
    tensor.dtype = dtype_of(field(header, "'descr': *'([^']*)'", "descr", path), path);
    tensor.shape = shape_of(field(header, R"('shape': *\(([0-9, ]*)\))", "shape", path), path);
    double elements = 1;  // in floating point, which does not overflow
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<double>(extent);
    const auto data_size = file_size - static_cast<std::size_t>(file.tellg());
    if (elements * static_cast<double>(size_of(tensor.dtype)) != static_cast<double>(data_size)) {
        fail(path, fmt::format("{}[{}] does not fit its {} bytes of data", name(tensor.dtype),
                               fmt::join(tensor.shape, ","), data_size));
    }
    tensor.size = data_size;
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(data_size);
    file.read(reinterpret_cast<char*>(bytes.get()), static_cast<std::streamsize>(data_size));
    if (!file) fail(path, "cannot be read");
    tensor.bytes = {bytes, bytes.get()};
    return tensor;
}

void write_npy(const std::string& path, const HostTensor& tensor) {
    if (tensor.dtype == DType::BF16) return write_npy(path, converted(tensor, DType::F32));
    std::string descr;
    for (const NpyType& type : kTypes) {
        if (type.dtype == tensor.dtype) descr = type.descr;
    }
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                     fmt::join(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "");
    const std::size_t before = kMagic.size() + 4;
    header.resize((before + header.size() + kAlignment) / kAlignment * kAlignment - before, ' ');
    header.back() = '\n';
    std::ofstream file(path, std::ios::binary);
    file << kMagic << '\1' << '\0' << static_cast<char>(header.size() & 0xff)
         << static_cast<char>(header.size() >> 8) << header;
    file.write(reinterpret_cast<const char*>(tensor.bytes.get()), static_cast<std::streamsize>(tensor.size));
    if (!file.flush()) fail(path, "cannot be written");
}

}  // namespace stretto
