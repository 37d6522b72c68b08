#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fuse/region.h"
#include "support/oracle.h"

namespace stretto {

/// Memory for every buffer of a program, filled for a test.
class BufferMemory {
public:
    /// Random elements (by seed) in what is read from outside, a NaN pattern in outputs and the arena.
    BufferMemory(const RegionGraph& graph, std::uint64_t seed);

    /// Sets the elements of one buffer.
    void set(BufferId buffer, const Elements& elements);

    [[nodiscard]] Elements elements(BufferId buffer) const;
    [[nodiscard]] const std::vector<std::byte>& bytes(BufferId buffer) const {
        return bytes_[buffer.index()];
    }
    [[nodiscard]] std::vector<void*> bindings();        ///< of State, Parameter, Input and Output buffers
    [[nodiscard]] std::vector<std::byte*> addresses();  ///< of all buffers
    [[nodiscard]] std::vector<Elements> all_elements() const;
    [[nodiscard]] std::map<std::string, Elements> elements_by_name() const;  ///< of the last one of each name

private:
    const RegionGraph* graph_;
    std::vector<std::vector<std::byte>> bytes_;
};

/// The last buffer of that name. Throws std::out_of_range where there is none.
[[nodiscard]] BufferId buffer_named(const RegionGraph& graph, const std::string& name);

/// Random elements: floats in [-1, 1], integers in [-3, 6], Bools.
[[nodiscard]] Elements random_elements(std::int64_t count, DType type, std::uint64_t seed);

}  // namespace stretto
