#pragma once

#include <string>
#include <variant>
#include <vector>

#include "fuse/fuse.h"
#include "graph/builder.h"
#include "simplify/simplify.h"

namespace stretto {

inline constexpr std::int64_t kHidden = 64;

inline RegionGraph fused(GraphBuilder& builder, Numerics numerics = Numerics::Fused,
                         const char* machine = "h200") {
    return fuse(simplify(builder.finish()), builtin_machine(machine), numerics);
}

template <class T>
std::vector<const T*> regions_of(const RegionGraph& graph) {
    std::vector<const T*> found;
    for (const Region& region : graph.regions) {
        if (const auto* body = std::get_if<T>(&region.body)) found.push_back(body);
    }
    return found;
}

inline const Buffer& target(const RegionGraph& graph, const Store& store) {
    return graph[BufferId(store.target.source)];
}

inline Tensor weight(GraphBuilder& b, const std::string& name, std::int64_t rows,
                     std::int64_t columns = kHidden) {
    return b.input(Role::Parameter, name, DType::BF16, {rows, columns});
}

inline Tensor number(GraphBuilder& b, double value) { return b.full({1}, value, DType::F32); }

}  // namespace stretto
