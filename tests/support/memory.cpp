#include "support/memory.h"

#include <random>
#include <stdexcept>

#include "base/rounding.h"

namespace stretto {

Elements random_elements(std::int64_t count, DType type, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> real(-1, 1);
    std::uniform_int_distribution<int> integer(type == DType::U8 ? 0 : -3, 6);
    std::bernoulli_distribution coin;
    Elements elements(static_cast<std::size_t>(count));
    for (double& element : elements) {
        element = type == DType::Bool ? (coin(random) ? 1 : 0)
                  : is_float(type)    ? real(random)
                                      : integer(random);
        element = rounded(element, type);
    }
    return elements;
}

BufferMemory::BufferMemory(const RegionGraph& graph, std::uint64_t seed) : graph_(&graph) {
    for (const Buffer& buffer : graph.buffers) {
        if (buffer.role == BufferRole::Constant) {
            bytes_.push_back(*buffer.bytes);
        } else if (buffer.role == BufferRole::Output || buffer.role == BufferRole::Arena) {
            bytes_.emplace_back(static_cast<std::size_t>(buffer.size_bytes()), std::byte{0xff});
        } else {
            bytes_.push_back(
                to_bytes(random_elements(volume(buffer.shape), buffer.dtype, ++seed * 7919), buffer.dtype));
        }
    }
}

void BufferMemory::set(BufferId buffer, const Elements& elements) {
    bytes_[buffer.index()] = to_bytes(elements, (*graph_)[buffer].dtype);
}

Elements BufferMemory::elements(BufferId buffer) const {
    return from_bytes(bytes_[buffer.index()].data(), volume((*graph_)[buffer].shape),
                      (*graph_)[buffer].dtype);
}

std::map<std::string, Elements> BufferMemory::elements_by_name() const {
    std::map<std::string, Elements> found;
    for (std::size_t b = 0; b < graph_->buffers.size(); ++b) {
        found[graph_->buffers[b].name] = elements(BufferId(static_cast<std::int64_t>(b)));
    }
    return found;
}

BufferId buffer_named(const RegionGraph& graph, const std::string& name) {
    for (std::size_t b = graph.buffers.size(); b-- > 0;) {
        if (graph.buffers[b].name == name) return BufferId(static_cast<std::int64_t>(b));
    }
    throw std::out_of_range("no buffer is named " + name);
}

std::vector<Elements> BufferMemory::all_elements() const {
    std::vector<Elements> all;
    for (std::size_t b = 0; b < bytes_.size(); ++b)
        all.push_back(elements(BufferId(static_cast<std::int64_t>(b))));
    return all;
}

std::vector<void*> BufferMemory::bindings() {
    std::vector<void*> out;
    for (std::size_t b = 0; b < bytes_.size(); ++b) {
        const BufferRole role = graph_->buffers[b].role;
        const bool inside = role == BufferRole::Constant || role == BufferRole::Arena;
        out.push_back(inside ? nullptr : bytes_[b].data());
    }
    return out;
}

std::vector<std::byte*> BufferMemory::addresses() {
    std::vector<std::byte*> out;
    for (std::vector<std::byte>& bytes : bytes_) out.push_back(bytes.data());
    return out;
}

}  // namespace stretto
