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

constexpr std::size_t kReach = 4;  ///< regions whose results a task waits for where waits are counted
constexpr double kNever = 1e9;     ///< us: a price at which the planner chooses something else

/// Options with which the planner hands everything over in one way.
CompileOptions handing_over(HandOff kind, Machine machine) {
    CompileOptions options{std::move(machine), Numerics::Fused, {}};
    options.features.words = kind == HandOff::Words;
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
            .wide_rounds = 4,
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
    const auto products = [&](bool chained, std::int64_t length) {
        return streamed_products(machine, chained, length, sizes.panels);
    };
    const auto relays = [&](Relay from, std::int64_t rounds, std::size_t reach, std::int64_t length) {
        return relay(machine, from, length, rounds, static_cast<std::int64_t>(reach));
    };
    const std::int64_t few = sizes.short_chain;
    const std::int64_t many = sizes.long_chain;

    add(kBandwidth, "weights of separate products", plain, products(false, 2 * sizes.products),
        products(false, sizes.products));
    add(kFlops, "a longer expression", plain,
        separate_maps(machine, few, sizes.wide_rounds, sizes.operations),
        separate_maps(machine, few, sizes.wide_rounds, sizes.operations / 4));
    add(kTensorFlops, "a deeper product", plain, square_product(machine, sizes.square, sizes.square),
        square_product(machine, sizes.square, sizes.square / 2));
    all.back().from_caches = true;
    add(kTask, "more tasks", plain, separate_maps(machine, many, 1, 1), separate_maps(machine, few, 1, 1));
    add(kLoadLatency, "a longer chain on each worker", plain, relays(Relay::OwnWorker, 1, 1, many),
        relays(Relay::OwnWorker, 1, 1, few));
    struct Way {
        const Quantity& quantity;
        HandOff kind;
    };
    constexpr std::array<Way, 3> kWays{
        {{kCounter, HandOff::Counter}, {kBarrier, HandOff::Barrier}, {kWord, HandOff::Words}}};
    const auto words = handing_over(HandOff::Words, machine);
    add(kWordByte, "more words a hand-off", words, relays(Relay::OtherWorker, sizes.wide_rounds, 1, many),
        relays(Relay::OtherWorker, 1, 1, many));
    for (const Way& way : kWays) {
        add(way.quantity, "a longer relay, quiet bus", handing_over(way.kind, machine),
            relays(Relay::OtherWorker, 1, 1, many), relays(Relay::OtherWorker, 1, 1, few));
    }
    add(kCounterWait, "a relay with more waits a task", plain, relays(Relay::OtherWorker, 1, kReach, many),
        relays(Relay::OtherWorker, 1, 1, many));
    for (const Way& way : kWays) {
        add(way.quantity, "chained products, busy bus", handing_over(way.kind, machine),
            products(true, sizes.products), products(false, sizes.products));
    }
    return all;
}

ProbeResult probe(const Machine& base, const ProbeSizes& sizes, const Clock& clock,
                  const ProbeProgress& progress) {
    ProbeResult result{base, {}};
    const std::vector<Probe> all = probes(base, sizes);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Probe& each = all[i];
        if (progress) progress(each, i + 1, all.size());
        const Compiled more = compile_regions(each.more, each.options);
        const Compiled less = compile_regions(each.less, each.options);
        const double difference = clock(more, less, each.options.machine);
        Machine rest = result.machine;
        if (each.from_caches) rest.bandwidth = std::numeric_limits<double>::max();
        const auto value = fitted(each.quantity, more.plan, less.plan, rest, difference);
        if (value) result.machine.*each.quantity.member = *value;
        result.findings.push_back({each.quantity, each.what, difference, value});
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
            row(quantity.field, number(base.*quantity.member), finding.value ? number(*finding.value) : "-",
                quantity.unit,
                fmt::format("{}: {:.3f} us{}", finding.what, finding.difference_us,
                            finding.value ? "" : ", which no value explains"));
        }
        if (!asked) {
            row(quantity.field, number(base.*quantity.member), number(base.*quantity.member), quantity.unit,
                "copied from the base");
        }
    }
    return text;
}

}  // namespace stretto
