#include "backends/cases.h"

namespace stretto {

BufferId CaseBuilder::buffer(BufferRole role, DType type, Shape shape) {
    const BufferId id(static_cast<std::int64_t>(graph_.buffers.size()));
    graph_.buffers.push_back({"b" + std::to_string(id.value), type, std::move(shape), role, nullptr});
    return id;
}

Access CaseBuilder::whole(BufferId buffer) const {
    return through(buffer, identity_map(graph_[buffer].shape));
}

Access CaseBuilder::through(BufferId buffer, IndexMap map) const {
    return {buffer.value, graph_[buffer].dtype, std::move(map), {}};
}

void CaseBuilder::region(RegionBody body) {
    graph_.regions.push_back({"region#" + std::to_string(graph_.regions.size()), std::move(body)});
}

Elements small_terms_beside_a_large_one(std::int64_t rows, std::int64_t terms) {
    Elements elements(static_cast<std::size_t>(rows * terms), epsilon(DType::F32) / 2);
    for (std::int64_t row = 0; row < rows; ++row) elements[static_cast<std::size_t>(row * terms)] = 1;
    return elements;
}

double epsilon(DType type) {
    switch (type) {
        case DType::F16:
            return 0x1p-11;
        case DType::BF16:
            return 0x1p-8;
        case DType::F32:
            return 0x1p-24;
        case DType::F64:
            return 0x1p-53;
        default:
            return 0;
    }
}

std::vector<Case> all_cases() {
    std::vector<Case> all;
    for (auto cases :
         {map_cases(), reduce_cases(), matmul_cases(), attention_cases(), scored_cases(), chain_cases()}) {
        for (Case& one : cases) all.push_back(std::move(one));
    }
    return all;
}

std::string sizes(const Shape& shape) {
    std::string text;
    for (std::int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
}

}  // namespace stretto
