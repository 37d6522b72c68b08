#include "tune/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/tensors.h"

namespace stretto {
namespace {

constexpr double kRoundings = 4;
/// F32 sums of some thousand terms in another order.
constexpr double kLeastTolerance = 1e-4;

double rounding(DType type) {
    switch (type) {
        case DType::BF16:
            return 0x1p-8;
        case DType::F16:
            return 0x1p-11;
        default:
            return 0;
    }
}

double tolerance(const Plan& plan) {
    double most = 0;
    for (const Buffer& buffer : plan.graph.regions.buffers) most = std::max(most, rounding(buffer.dtype));
    return std::max(kRoundings * most, kLeastTolerance);
}

bool same_bytes(const HostTensor& a, const HostTensor& b) {
    return a.size == b.size && std::memcmp(a.bytes.get(), b.bytes.get(), a.size) == 0;
}

/// The largest difference of two elements, relative to the largest element; infinite where just one is not finite.
double relative_difference(const HostTensor& a, const HostTensor& b) {
    const HostTensor wide_a = converted(a, DType::F32);
    const HostTensor wide_b = converted(b, DType::F32);
    const auto* x = reinterpret_cast<const float*>(wide_a.bytes.get());
    const auto* y = reinterpret_cast<const float*>(wide_b.bytes.get());
    double most = 0;
    double largest = 0;
    for (std::size_t i = 0; i < wide_a.size / sizeof(float); ++i) {
        const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
        if (!same && !(std::isfinite(x[i]) && std::isfinite(y[i]))) return HUGE_VAL;
        if (!same) most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
        if (std::isfinite(y[i])) largest = std::max(largest, std::abs(static_cast<double>(y[i])));
    }
    return most == 0 ? 0 : most / largest;
}

/// Outputs, then states.
std::vector<std::string> results_of(const Program& program) {
    std::vector<std::string> names;
    for (const std::string& name : program.outputs) {
        if (!name.empty()) names.push_back(name);
    }
    for (const Buffer& buffer : program.plan.graph.regions.buffers) {
        if (buffer.role == BufferRole::State) names.push_back(buffer.name);
    }
    return names;
}

std::unique_ptr<Session> session_of(const Imported& model, const Compiled& compiled, Backend backend,
                                    const GiveInputs& give_inputs) {
    const auto program = std::make_shared<const Program>(make_program(compiled, model, {}));
    auto session = std::make_unique<Session>(program, backend);
    give_inputs(*session);
    return session;
}

void time_in_turns(Session& session, Session& reference, const TimingSettings& settings, Comparison& result) {
    const auto launch_of = [](Session& each) {
        return [&each](std::uint32_t iterations) { each.run(iterations); };
    };
    const Launch launch = launch_of(session);
    const Launch launch_reference = launch_of(reference);
    const std::uint32_t iterations = iterations_for(launch_reference, settings);
    std::vector<double> times;
    std::vector<double> reference_times;
    for (int round = 0; round < settings.rounds; ++round) {
        session.reset_state();
        reference.reset_state();
        times.push_back(timed_us(launch, iterations) / iterations);
        reference_times.push_back(timed_us(launch_reference, iterations) / iterations);
    }
    result.measured_us = median(std::move(times));
    result.untuned_us = median(std::move(reference_times));
}

}  // namespace

std::string difference(Session& session, Session& reference) {
    for (Session* each : {&session, &reference}) {
        each->reset_state();
        each->run();
    }
    const double most = tolerance(reference.program().plan);
    for (const std::string& name : results_of(reference.program())) {
        const HostTensor found = session.get(name);
        const HostTensor expected = reference.get(name);
        if (same_bytes(found, expected)) continue;
        if (!is_float(found.dtype)) return fmt::format("'{}' differs", name);
        const double relative = relative_difference(found, expected);
        if (relative > most) {
            return fmt::format("'{}' differs by {:.2g} of its largest element", name, relative);
        }
    }
    return {};
}

Contest contest(const Imported& model, const Compiled& untuned, Backend backend, GiveInputs give_inputs,
                const TimingSettings& settings) {
    const std::shared_ptr<Session> reference = session_of(model, untuned, backend, give_inputs);
    return [&model, backend, give = std::move(give_inputs), settings,
            reference](const Compiled& candidate) -> Comparison {
        try {
            const auto session = session_of(model, candidate, backend, give);
            give(*reference);
            Comparison result{0, 0, difference(*session, *reference)};
            if (result.fault.empty()) time_in_turns(*session, *reference, settings, result);
            return result;
        } catch (const InternalError& error) {
            return {0, 0, fmt::format("does not compile: {}", error.what())};
        } catch (const RunError& error) {
            return {0, 0, fmt::format("does not run: {}", error.what())};
        }
    };
}

}  // namespace stretto
