#include "backends/reference/iterations.h"

#include <atomic>

#include "abi/abi.h"
#include "base/error.h"

namespace stretto {

RunningLaunch::RunningLaunch(const StopWorkers& stop_workers, const std::vector<std::byte*>& bases,
                             const Iterations& iterations)
    : iterations_(iterations) {
    if (iterations.count < 1) throw UserError("a launch has at least one iteration");
    if (!iterations.stop.valid()) return;
    static_cast<void>(stop_worker(stop_workers, iterations.stop));
    stop_ = bases[iterations.stop.index()];
}

bool RunningLaunch::goes_on() {
    ++done_;
    const bool stopped = stop_ != nullptr && *stop_ != std::byte{0};
    const bool spent =
        iterations_.granted != nullptr && std::atomic_ref(*iterations_.granted).load() <= done_;
    const bool ended = stopped || spent || done_ == iterations_.count;
    if (iterations_.progress != nullptr) {
        std::atomic_ref(*iterations_.progress).store(done_ | (ended ? abi::kEnded : 0));
    }
    return !ended;
}

}  // namespace stretto
