#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/pipeline.h"
#include "tune/fit.h"

namespace stretto {

/// How large the programs of a probe are.
struct ProbeSizes {
    std::int64_t short_chain = 16;  ///< regions
    std::int64_t long_chain = 64;
    std::int64_t products = 24;      ///< streamed, one after the other
    std::int64_t panels = 2;         ///< of each, a worker
    std::int64_t wide_products = 4;  ///< where bytes, of weights or of words, are what counts
    std::int64_t wide_panels = 8;
    std::int64_t rounds = 16;       ///< elements that a thread computes by the longest expression
    std::int64_t operations = 256;  ///< of that expression
    std::int64_t square = 4096;     ///< rows and columns of the product on tensor cores
};

/// Small ones for a machine whose workers are threads.
[[nodiscard]] ProbeSizes probe_sizes(const Machine& machine);

/// Two programs whose times differ by what one number of a machine file prices.
struct Probe {
    Quantity quantity;
    std::string_view what;   ///< shows the number, e.g. "hand-offs of a chain of products"
    CompileOptions options;  ///< with a machine that makes the planner choose what is to be measured
    RegionGraph more;
    RegionGraph less;
    /// Caches bring the operands of tiles faster than memory; the simulator, which has none, must not wait for them.
    bool from_caches = false;
};

/// In an order in which each relies on earlier ones. A number may be asked for twice: the later answer counts, and
/// hand-offs are asked for on a quiet memory bus first and under the stream then (docs/decisions/0017).
/// Throws UserError on a machine of less than two workers, which hands nothing over.
[[nodiscard]] std::vector<Probe> probes(const Machine& machine, const ProbeSizes& sizes);

/// What a probe found.
struct Finding {
    Quantity quantity;
    std::string_view what;
    double difference_us = 0;     ///< measured
    std::optional<double> value;  ///< nothing where no value explains the difference
};

struct ProbeResult {
    Machine machine;  ///< the base with every number that was found
    std::vector<Finding> findings;
};

/// How much longer one run of the first program takes than one of the second, in microseconds.
using Clock = std::function<double(const Compiled& more, const Compiled& less, const Machine& machine)>;
/// Called with what is measured next, and its place among how many.
using ProbeProgress = std::function<void(const Probe& probe, std::size_t number, std::size_t count)>;

/// Measures `base` with `clock` (tune/launch_clock.h). Numbers that no probe asks for, or for which no value explains
/// what was measured, stay those of the base.
[[nodiscard]] ProbeResult probe(const Machine& base, const ProbeSizes& sizes, const Clock& clock,
                                const ProbeProgress& progress = {});

/// A table for people: each number with its unit, the base's value and the one found, and how.
[[nodiscard]] std::string probe_report(const Machine& base, const ProbeResult& result);

}  // namespace stretto
