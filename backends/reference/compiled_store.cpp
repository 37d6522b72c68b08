#include "backends/reference/compiled_store.h"

#include <array>

#include "base/error.h"

namespace stretto {

void CompiledStore::run(const Block& block, Buffers buffers, Workspace& workspace) const {
    const void* values = expr_.run(block, buffers, workspace);
    std::array<const std::int64_t*, 8> indirect{};
    ensure(indices_.size() <= indirect.size(), "a store has more than 8 indirect coordinates");
    for (std::size_t i = 0; i < indices_.size(); ++i) indirect[i] = expr_.integers(indices_[i], workspace);
    target_.write(block, indirect, buffers, workspace, values, expr_.domain());
}

}  // namespace stretto
