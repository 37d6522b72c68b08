#include "profile/bus_time.h"

#include <algorithm>

#include "cost/bus.h"

namespace stretto {
namespace {

struct Issue {
    double time = 0;
    std::size_t worker = 0;
    std::size_t load = 0;
};

}  // namespace

std::optional<BusTime> bus_time(const Plan& plan, const Trace& trace, const Machine& machine) {
    std::vector<Issue> issues;
    BusTime result;
    for (std::size_t w = 0; w < trace.loads.size(); ++w) {
        for (std::size_t i = 0; i < trace.loads[w].size(); ++i) issues.push_back({trace.loads[w][i], w, i});
        result.landed.emplace_back(trace.loads[w].size());
    }
    if (issues.empty()) return std::nullopt;
    std::stable_sort(issues.begin(), issues.end(),
                     [](const Issue& a, const Issue& b) { return a.time < b.time; });
    Bus bus(machine.bandwidth);
    const auto land_next = [&] {
        const double now = bus.next_end();
        const Issue& issue = issues[bus.finish_next()];
        result.landed[issue.worker][issue.load] = now;
    };
    for (std::size_t i = 0; i < issues.size(); ++i) {
        while (bus.busy() && bus.next_end() <= issues[i].time) land_next();
        const Load& load = plan.workers[issues[i].worker].stream[issues[i].load];
        bus.start(issues[i].time, static_cast<double>(load.bytes()), i);
    }
    while (bus.busy()) land_next();
    result.idle = std::max(trace.total - bus.busy_time(), 0.0);
    return result;
}

}  // namespace stretto
