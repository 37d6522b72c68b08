#include "emit/operand_slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "abi/abi.h"
#include "base/error.h"

namespace stretto {

std::vector<BufferId> operand_slots(const Region& region) {
    std::vector<BufferId> slots;
    for (const Use& use : uses(region)) {
        const BufferId buffer(use.access->source);
        if (std::find(slots.begin(), slots.end(), buffer) == slots.end()) slots.push_back(buffer);
    }
    if (slots.size() > abi::kMaxOperands) {
        throw InternalError(
            fmt::format("region {} uses {} buffers, but a record holds {}: fuse must build smaller regions",
                        region.name, slots.size(), abi::kMaxOperands));
    }
    return slots;
}

}  // namespace stretto
