#pragma once

#include <vector>

#include "backends/reference/compiled_expr.h"
#include "fuse/region.h"

namespace stretto {

/// A store made ready to run over blocks.
class CompiledStore {
public:
    explicit CompiledStore(const Store& store)
        : target_(store.target), expr_(store.expr), indices_(store.indices) {}

    void run(const Block& block, Buffers buffers, Workspace& workspace) const;

private:
    CompiledAccess target_;
    CompiledExpr expr_;
    std::vector<std::int32_t> indices_;
};

[[nodiscard]] inline std::vector<CompiledStore> compiled(const std::vector<Store>& stores) {
    return {stores.begin(), stores.end()};
}

}  // namespace stretto
