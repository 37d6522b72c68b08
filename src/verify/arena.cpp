#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "verify/accesses.h"
#include "verify/boxes.h"

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;
using Runs = std::vector<Range>;

/// An arena buffer with all its uses as one group.
struct Tenant {
    BufferId buffer;
    Range bytes;  ///< of the arena
    Group all;
    const BufferUse* use = nullptr;
};

/// An access as bytes of the arena.
struct ByteTouch {
    TaskId task;
    bool write = false;
    bool may = false;
    Runs runs;
};

Tenant tenant_of(const Plan& plan, BufferId id, const BufferUse& use) {
    const std::int64_t offset = plan.offsets[id.index()];
    Tenant tenant{id, {offset, offset + plan.graph.regions[id].size_bytes()}, {}, &use};
    tenant.all = use.groups.front();
    for (const Group& group : use.groups) {
        for (std::size_t w = 0; w < group.last.size(); ++w) {
            tenant.all.last[w] = std::max(tenant.all.last[w], group.last[w]);
            tenant.all.least[w] = std::min(tenant.all.least[w], group.least[w]);
        }
    }
    return tenant;
}

/// Compares two buffers whose arena bytes overlap.
class SharedBytes {
public:
    SharedBytes(const Plan& plan, const Order& order, FaultList& faults)
        : plan_(plan), order_(order), faults_(faults) {}

    /// A word's tag must stay what the launch before left until the word is written.
    void check_words(const Tenant& a, const Tenant& b) {
        const auto tagged = [&](const Tenant& t) { return plan_.graph.regions[t.buffer].tagged; };
        if (!tagged(a) && !tagged(b)) return;
        const Tenant& words = tagged(a) ? a : b;
        const Tenant& other = tagged(a) ? b : a;
        faults_.add(Kind::Race,
                    fmt::format("the words of '{}' at arena bytes [{}, {}) share bytes with '{}' at "
                                "[{}, {}), whose stores would change their tags",
                                plan_.graph.regions[words.buffer].name, words.bytes.begin, words.bytes.end,
                                plan_.graph.regions[other.buffer].name, other.bytes.begin, other.bytes.end));
    }

    /// Requires: neither buffer wholly precedes the other.
    void check(const Tenant& a, const Tenant& b) {
        const Range shared{std::max(a.bytes.begin, b.bytes.begin), std::min(a.bytes.end, b.bytes.end)};
        const std::vector<ByteTouch> of_a = touches(a, shared);
        const std::vector<ByteTouch> of_b = touches(b, shared);
        for (const ByteTouch& x : of_a) {
            for (const ByteTouch& y : of_b) {
                if (!x.write && !y.write) continue;
                const Runs bytes = common_runs(x.runs, y.runs);
                if (bytes.empty()) continue;
                if (x.task == y.task || (!order_.before(x.task, y.task) && !order_.before(y.task, x.task))) {
                    report(a, x, b, y, bytes.front(), "no hand-off orders these tasks");
                    return;
                }
                if (!x.write && overwritten(of_a, x, y, bytes)) {
                    report(b, y, a, x, bytes.front(), "a value is overwritten before its last read");
                    return;
                }
                if (!y.write && overwritten(of_b, y, x, bytes)) {
                    report(a, x, b, y, bytes.front(), "a value is overwritten before its last read");
                    return;
                }
            }
        }
    }

private:
    std::vector<ByteTouch> touches(const Tenant& tenant, Range shared) const {
        const Buffer& buffer = plan_.graph.regions[tenant.buffer];
        std::vector<ByteTouch> out;
        for (const Group& group : tenant.use->groups) {
            for (const Touch& touch : group.touches) {
                Runs runs = common_runs(byte_runs(buffer, touch.print->box, tenant.bytes.begin), {shared});
                if (!runs.empty())
                    out.push_back({touch.task, group.write, touch.print->may, std::move(runs)});
            }
        }
        return out;
    }

    /// Does `writer`, of another buffer, destroy bytes that `reader` still needs? Not where the reader comes
    /// first, or where the reader's own buffer is written again in between.
    bool overwritten(const std::vector<ByteTouch>& own, const ByteTouch& reader, const ByteTouch& writer,
                     Runs bytes) const {
        if (!writer.write || order_.before(reader.task, writer.task)) return false;
        for (const ByteTouch& renewal : own) {
            if (!renewal.write || renewal.may) continue;
            if (!order_.before(writer.task, renewal.task) || !order_.before(renewal.task, reader.task))
                continue;
            bytes = runs_without(bytes, renewal.runs);
        }
        return !bytes.empty();
    }

    void report(const Tenant& a, const ByteTouch& x, const Tenant& b, const ByteTouch& y, Range bytes,
                const char* reason) {
        const auto line = [&](const Tenant& tenant, const ByteTouch& touch) {
            return fmt::format("\n  {}  {} ('{}')", touch.write ? "writes" : "reads ",
                               order_.describe(touch.task), plan_.graph.regions[tenant.buffer].name);
        };
        faults_.add(
            Kind::Race,
            fmt::format("race on arena bytes [{}, {}), which two buffers share: {}{}{}\n  see the path: "
                        "stretto explain model.stretto --tasks {},{}",
                        bytes.begin, bytes.end, reason, line(a, x), line(b, y), x.task.value, y.task.value));
    }

    const Plan& plan_;
    const Order& order_;
    FaultList& faults_;
};

}  // namespace

void check_arena(const Plan& plan, const Order& order, const std::vector<BufferUse>& uses,
                 FaultList& faults) {
    std::vector<Tenant> tenants;
    for (std::size_t b = 0; b < uses.size(); ++b) {
        const BufferId id(static_cast<std::int64_t>(b));
        if (plan.graph.regions[id].role != BufferRole::Arena || uses[b].groups.empty()) continue;
        tenants.push_back(tenant_of(plan, id, uses[b]));
    }
    std::stable_sort(tenants.begin(), tenants.end(),
                     [](const Tenant& a, const Tenant& b) { return a.bytes.begin < b.bytes.begin; });
    SharedBytes shared(plan, order, faults);
    for (std::size_t i = 0; i < tenants.size(); ++i) {
        for (std::size_t j = i + 1; j < tenants.size() && tenants[j].bytes.begin < tenants[i].bytes.end;
             ++j) {
            shared.check_words(tenants[i], tenants[j]);
            if (wholly_before(tenants[i].all, tenants[j].all) ||
                wholly_before(tenants[j].all, tenants[i].all)) {
                continue;
            }
            if (!faults.full(Kind::Race)) shared.check(tenants[i], tenants[j]);
        }
    }
}

}  // namespace stretto::verifying
