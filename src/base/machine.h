#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

/// What the planner knows about a machine. Times in microseconds, sizes in bytes, rates per microsecond.
/// `machines/*.json` holds one object each with exactly these names.
struct Machine {
    std::string name;                 ///< e.g. "h200"
    std::string arch;                 ///< "sm_90a", ..., or "cpu"
    std::int32_t workers = 1;         ///< resident CTAs (one a SM), or threads; 0 in a file: all threads here
    std::int32_t consumer_warps = 8;  ///< lanes of one worker that compute, in groups of 32
    std::int64_t shared_bytes = 0;    ///< shared memory that one worker may use
    double clock = 0;                 ///< cycles/us of a worker, as the chip is sold; 0: unknown
    double bandwidth = 1;             ///< bytes/us that all workers read from memory together
    double flops = 1;                 ///< scalar F32 operations/us of one worker
    double tensor_flops = 1;          ///< 16-bit operations/us of one worker's tensor cores, sustained
    double counter_us = 1;            ///< hand-off by a counter: release, propagation, acquire
    double counter_wait_us = 0;       ///< each further counter that the same task waits for
    double signal_us = 0;             ///< each further counter that the same task signals
    double word_us = 1;               ///< hand-off by epoch-tagged words: store, propagation, poll
    double word_byte_us = 0;          ///< each byte of words that one task polls
    double barrier_us = 1;            ///< hand-off by a barrier over all workers
    double task_us = 0;               ///< fixed cost of starting a task
    double load_latency_us = 0;       ///< one dependent load of another worker's result
};

/// Reads a machine file. Throws UserError naming the file and the wrong or missing field.
[[nodiscard]] Machine read_machine(const std::string& path);
[[nodiscard]] Machine parse_machine(std::string_view json);
[[nodiscard]] std::string to_json(const Machine& machine);

/// The machine files compiled into the library: "h200", "cpu". "cpu" takes its worker count from this
/// computer.
[[nodiscard]] Machine builtin_machine(std::string_view name);

/// A built-in machine by name, or the machine file where `name` ends with ".json".
[[nodiscard]] Machine machine_named(const std::string& name);

}  // namespace stretto
