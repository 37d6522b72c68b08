#include "tune/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "tune/probe_programs.h"

namespace stretto {
namespace {

constexpr Quantity kBandwidth{"bandwidth", "bytes/us, all workers", &Machine::bandwidth, true};
constexpr Quantity kFlops{"flops", "operations/us, a worker", &Machine::flops, true};
constexpr Quantity kTensorFlops{"tensor_flops", "operations/us, a worker", &Machine::tensor_flops, true};
constexpr Quantity kTask{"task_us", "us", &Machine::task_us};
constexpr Quantity kLoadLatency{"load_latency_us", "us", &Machine::load_latency_us};
constexpr Quantity kCounter{"counter_us", "us", &Machine::counter_us};
constexpr Quantity kCounterWait{"counter_wait_us", "us", &Machine::counter_wait_us};
constexpr Quantity kSignal{"signal_us", "us", &Machine::signal_us};
constexpr Quantity kBarrier{"barrier_us", "us", &Machine::barrier_us};
constexpr Quantity kWord{"word_us", "us", &Machine::word_us};
constexpr Quantity kWordByte{"word_byte_us", "us/byte", &Machine::word_byte_us};

/// In the order of the file.
constexpr std::array kQuantities{kBandwidth, kFlops,    kTensorFlops, kCounter, kCounterWait, kSignal,
                                 kWord,      kWordByte, kBarrier,     kTask,    kLoadLatency};

constexpr std::int64_t kShared = 3;  ///< counters that a task signals where signals are counted
constexpr std::size_t kReach = 4;    ///< regions whose results a task waits for where waits are counted
constexpr double kNever = 1e9;       ///< us: a price at which the planner chooses something else

/// What a hand-off by words costs is a part for each hand-off and a part for each word: each is found with the other as it
/// was in the pass before, and changes a small part of it.
constexpr int kPasses = 3;

struct Measured {
    Plan more;
    Plan less;
    double difference_us = 0;
};

/// Options with which the planner hands everything over in one way.
CompileOptions handing_over(HandOff kind, Machine machine) {
    CompileOptions options{std::move(machine), Numerics::Fused, {}};
    options.plan.words = kind == HandOff::Words;
    options.machine.barrier_us = kind == HandOff::Barrier ? 0 : kNever;
    if (kind == HandOff::Words) {
        options.machine.counter_us = kNever;
        options.machine.barrier_us = 2 * kNever;
    }
    return options;
}

}  // namespace

ProbeSizes probe_sizes(const Machine& machine) {
    if (machine.arch != "cpu") return {};
    return {.short_chain = 4,
            .long_chain = 16,
            .products = 4,
            .panels = 8,
            .wide_products = 2,
            .wide_panels = 32,
            .rounds = 4,
            .operations = 32,
            .square = 128};
}

std::vector<Probe> probes(const Machine& machine, const ProbeSizes& sizes) {
    if (machine.workers < 2) {
        throw UserError(fmt::format(
            "machine '{}' has one worker: a probe needs two, which hand something over", machine.name));
    }
    const auto plain = handing_over(HandOff::Counter, machine);
    std::vector<Probe> all;
    const auto add = [&](const Quantity& quantity, std::string_view what, const CompileOptions& options,
                         RegionGraph more, RegionGraph less) {
        all.push_back({quantity, what, options, std::move(more), std::move(less), false});
    };
    const auto products = [&](Rows rows) {
        return streamed_products(machine, rows, sizes.products, sizes.panels);
    };
    const auto wide = [&](Rows rows) {
        return wide_products(machine, rows, sizes.wide_products, sizes.wide_panels);
    };
    const auto relays = [&](Relay from, std::size_t reach, std::int64_t length) {
        return relay(machine, from, length, static_cast<std::int64_t>(reach));
    };
    const std::int64_t few = sizes.short_chain;
    const std::int64_t many = sizes.long_chain;

    add(kBandwidth, "weights of separate products", plain,
        streamed_products(machine, Rows::Separate, 2 * sizes.wide_products, sizes.wide_panels),
        streamed_products(machine, Rows::Separate, sizes.wide_products, sizes.wide_panels));
    add(kFlops, "a longer expression", plain, separate_maps(machine, few, sizes.rounds, sizes.operations),
        separate_maps(machine, few, sizes.rounds, sizes.operations / 4));
    add(kTensorFlops, "a deeper product", plain, square_product(machine, sizes.square, sizes.square),
        square_product(machine, sizes.square, sizes.square / 2));
    all.back().from_caches = true;
    add(kTask, "more tasks", plain, separate_maps(machine, many, 1, 0), separate_maps(machine, few, 1, 0));
    add(kLoadLatency, "a longer chain on each worker", plain, relays(Relay::OwnWorker, 1, many),
        relays(Relay::OwnWorker, 1, few));
    struct Way {
        const Quantity& quantity;
        HandOff kind;
    };
    constexpr std::array<Way, 3> kWays{
        {{kCounter, HandOff::Counter}, {kBarrier, HandOff::Barrier}, {kWord, HandOff::Words}}};
    for (const Way& way : kWays) {
        add(way.quantity, "a longer relay, quiet bus", handing_over(way.kind, machine),
            relays(Relay::OtherWorker, 1, many), relays(Relay::OtherWorker, 1, few));
    }
    add(kWordByte, "wide rows as words", handing_over(HandOff::Words, machine), wide(Rows::Chained),
        wide(Rows::Separate));
    add(kCounterWait, "a relay with more waits a task", plain, relays(Relay::OtherWorker, kReach, many),
        relays(Relay::OtherWorker, 1, many));
    CompileOptions signals = plain;
    signals.machine.counter_wait_us = kNever;
    signals.machine.signal_us = 0;
    add(kSignal, "a relay with more signals a task", signals, overlapping_relay(machine, many, kShared),
        overlapping_relay(machine, many, 1));
    for (const Way& way : kWays) {
        add(way.quantity, "chained products, busy bus", handing_over(way.kind, machine),
            products(Rows::Chained), products(Rows::Separate));
    }
    return all;
}

ProbeResult probe(const Machine& base, const ProbeSizes& sizes, const Clock& clock,
                  const ProbeProgress& progress) {
    const std::vector<Probe> all = probes(base, sizes);
    std::vector<Measured> measured;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (progress) progress(all[i], i + 1, all.size());
        Compiled more = compile_regions(all[i].more, all[i].options);
        Compiled less = compile_regions(all[i].less, all[i].options);
        const double difference = clock(more, less, all[i].options.machine);
        measured.push_back({std::move(more.plan), std::move(less.plan), difference});
    }
    ProbeResult result{base, {}};
    for (int pass = 0; pass < kPasses; ++pass) {
        result.findings.clear();
        for (std::size_t i = 0; i < all.size(); ++i) {
            Machine rest = result.machine;
            if (all[i].from_caches) rest.bandwidth = std::numeric_limits<double>::max();
            const auto& [more, less, difference] = measured[i];
            const auto value = fitted(all[i].quantity, more, less, rest, difference);
            if (value) result.machine.*all[i].quantity.member = *value;
            result.findings.push_back({all[i].quantity, all[i].what, difference, value});
        }
    }
    return result;
}

std::string probe_report(const Machine& base, const ProbeResult& result) {
    std::string text = fmt::format("{:<16} {:>12} {:>12}  {:<24} {}\n", "field", base.name,
                                   result.machine.name, "unit", "how");
    const auto out = std::back_inserter(text);
    const auto row = [&](std::string_view field, const auto& before, const auto& after, std::string_view unit,
                         std::string_view how) {
        fmt::format_to(out, "{:<16} {:>12} {:>12}  {:<24} {}\n", field, before, after, unit, how);
    };
    const auto number = [](double value) { return fmt::format("{:.4g}", value); };
    const auto limit = [&](std::string_view field, const auto& before, const auto& after,
                           std::string_view unit) {
        row(field, before, after, unit, before == after ? "as in the base" : "asked of the device");
    };
    limit("arch", base.arch, result.machine.arch, "");
    limit("workers", base.workers, result.machine.workers, "");
    limit("consumer_warps", base.consumer_warps, result.machine.consumer_warps, "groups of 32 lanes");
    limit("shared_bytes", base.shared_bytes, result.machine.shared_bytes, "bytes, a worker");
    for (const Quantity& quantity : kQuantities) {
        bool asked = false;
        for (const Finding& finding : result.findings) {
            if (finding.quantity.field != quantity.field) continue;
            asked = true;
            row(quantity.field, number(base.*quantity.member),
                number(finding.value.value_or(base.*quantity.member)), quantity.unit,
                fmt::format("{}: {:.3f} us{}", finding.what, finding.difference_us,
                            finding.value ? "" : ", less than all else takes: the base's stays"));
        }
        if (!asked) {
            row(quantity.field, number(base.*quantity.member), number(base.*quantity.member), quantity.unit,
                "as in the base");
        }
    }
    return text;
}

}  // namespace stretto
