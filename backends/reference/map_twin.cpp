#include "backends/reference/blocks.h"
#include "backends/reference/compiled_store.h"
#include "backends/reference/twin.h"

namespace stretto {
namespace {

class MapTwin final : public Twin {
public:
    explicit MapTwin(const MapRegion& region) : space_(region.space), stores_(compiled(region.stores)) {}

    void run(const Task& task, Buffers buffers, Workspace& workspace) const override {
        for (BlockWalk walk(space_, task.tile[0], space_.size(), workspace); !walk.done();) {
            const Block block = walk.next();
            for (const CompiledStore& store : stores_) store.run(block, buffers, workspace);
        }
    }

private:
    Shape space_;
    std::vector<CompiledStore> stores_;
};

}  // namespace

std::unique_ptr<Twin> make_twin(const MapRegion& region) { return std::make_unique<MapTwin>(region); }

}  // namespace stretto
