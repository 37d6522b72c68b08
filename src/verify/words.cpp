#include "verify/words.h"

#include <fmt/format.h>

namespace stretto::verifying {
namespace {

using Kind = Fault::Kind;

class WordCheck {
public:
    WordCheck(const Plan& plan, FaultList& faults) : plan_(plan), faults_(faults) {}

    void run() {
        for (const Buffer& buffer : plan_.graph.regions.buffers) form(buffer);
        for (const Region& region : plan_.graph.regions.regions) readers(region);
        for (std::size_t t = 0; t < plan_.graph.tasks.size(); ++t) {
            for (const Footprint& write : plan_.graph.tasks[t].writes) {
                if (!write.may || !plan_.graph.regions[write.buffer].tagged) continue;
                broken(
                    fmt::format("{} may leave words of '{}' unwritten, for which readers then wait in vain",
                                task_name(plan_, TaskId(static_cast<std::int64_t>(t))),
                                plan_.graph.regions[write.buffer].name));
            }
        }
    }

private:
    void broken(std::string message) { faults_.add(Kind::Malformed, std::move(message)); }

    void form(const Buffer& buffer) {
        if (buffer.packed && (!buffer.tagged || !is_float(buffer.dtype)))
            broken(fmt::format("'{}' is packed: only tagged buffers of floats can be", buffer.name));
        if (!buffer.tagged) return;
        const std::size_t size = size_of(buffer.dtype);
        if (buffer.role == BufferRole::Arena && (size == 2 || size == 4)) return;
        broken(
            fmt::format("'{}' is tagged: only arena buffers of 16- or 32-bit elements can be", buffer.name));
    }

    /// Main loops that read a buffer as it lies do not look at tags.
    void readers(const Region& region) {
        const auto plain = [&](const Access& access) {
            const auto b = static_cast<std::size_t>(access.source);
            if (access.source < 0 || b >= plan_.graph.regions.buffers.size()) return;
            const Buffer& buffer = plan_.graph.regions.buffers[b];
            if (!buffer.tagged) return;
            broken(fmt::format("'{}' reads '{}' in its main loop, where words cannot be waited for",
                               region.name, buffer.name));
        };
        if (const auto* matmul = std::get_if<MatMulRegion>(&region.body)) {
            for (const Access& weight : matmul->weights) plain(weight);
        } else if (const auto* attention = std::get_if<AttentionRegion>(&region.body)) {
            plain(attention->key);
            plain(attention->value);
        } else if (const auto* scored = std::get_if<ScoredRegion>(&region.body)) {
            for (const Score& score : scored->scores) {
                plain(score.left);
                plain(score.right);
            }
            for (const ScoredSum& sum : scored->sums) {
                for (const Access& access : sum.weight.accesses) plain(access);
                if (sum.factor) plain(*sum.factor);
            }
        }
    }

    const Plan& plan_;
    FaultList& faults_;
};

}  // namespace

void check_words(const Plan& plan, FaultList& faults) { WordCheck(plan, faults).run(); }

}  // namespace stretto::verifying
