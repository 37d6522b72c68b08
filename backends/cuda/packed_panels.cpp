#include "backends/cuda/packed_panels.h"

#include <algorithm>
#include <span>

namespace stretto::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr std::size_t kMostBlocks = 4096;

CompiledKernel compiled(const std::string& arch) {
    Emission emission;
    emission.source = "#include <stretto/stream/pack.h>\n";
    return compile_kernel(emission, arch);
}

abi::U64 image_bytes(const abi::Load& panel) {
    return static_cast<abi::U64>(abi::packed_bytes(panel.rows, panel.row_bytes));
}

std::size_t bytes_of_all(const std::vector<abi::Load*>& panels) {
    std::size_t bytes = 0;
    for (const abi::Load* panel : panels) bytes += image_bytes(*panel);
    return bytes;
}

}  // namespace

PackedPanels::PackedPanels(const std::vector<abi::Load*>& panels, const std::string& arch)
    : images_(bytes_of_all(panels)), count_(panels.size()), kernel_(compiled(arch), "stretto_pack") {
    std::vector<abi::Load> sources;
    std::vector<abi::U64> addresses;
    abi::U64 image = images_.address();
    for (abi::Load* panel : panels) {
        sources.push_back(*panel);
        addresses.push_back(image);
        const abi::U32 bytes = abi::panel_bytes(panel->rows, panel->row_bytes);
        panel->address = image;
        panel->rows = 1;
        panel->row_bytes = bytes;
        panel->row_stride = 0;
        panel->bytes = bytes;
        image += image_bytes(sources.back());
    }
    images_.clear();  // a copy reads the gap between even and odd rows, too
    panels_ = DeviceMemory(std::as_bytes(std::span(sources)));
    addresses_ = DeviceMemory(std::as_bytes(std::span(addresses)));
    finish_copies();
}

void PackedPanels::make(Stream stream) const {
    LaunchConfig config{.block = {kThreads, 1, 1}, .stream = stream};
    config.grid[0] = static_cast<unsigned>(std::min(count_, kMostBlocks));
    DevicePointer panels = panels_.address();
    DevicePointer addresses = addresses_.address();
    auto count = static_cast<abi::U32>(count_);
    void* parameters[] = {&panels, &addresses, &count};
    check(driver().launch(&config, kernel_.function(), parameters, nullptr), "cuLaunchKernelEx");
}

}  // namespace stretto::cuda
