#pragma once

#include <string>
#include <vector>

#include "verify/verify.h"

namespace stretto::verifying {

/// Collects faults, at most kMaxOfOneKind of each kind.
class FaultList {
public:
    static constexpr std::size_t kMaxOfOneKind = 64;

    void add(Fault::Kind kind, std::string message);
    [[nodiscard]] bool full(Fault::Kind kind) const { return count(kind) >= kMaxOfOneKind; }
    [[nodiscard]] bool empty() const { return faults_.empty(); }
    [[nodiscard]] std::size_t count(Fault::Kind kind) const;
    [[nodiscard]] std::vector<Fault> take() { return std::move(faults_); }

private:
    std::vector<Fault> faults_;
};

/// "#412 layers.3.mlp.down"
[[nodiscard]] std::string task_name(const Plan& plan, TaskId task);

/// "event #3 'layers.3.mlp.down'"
[[nodiscard]] std::string event_name(const Plan& plan, EventId event);

/// "arena bytes [8192, 12288) of 'h'", or "bytes [0, 64) of state 'key_cache_3'"; `bytes` counts from the
/// start of the buffer.
[[nodiscard]] std::string bytes_name(const Plan& plan, BufferId buffer, Range bytes);

/// "[0:4, 16:32]"
[[nodiscard]] std::string box_name(const Box& box);

}  // namespace stretto::verifying
