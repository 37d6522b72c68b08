#include "tune/tune.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings.h"
#include "tensor_reference.h"
#include "tune/contest.h"

namespace stretto::python {
namespace {

/// Called with what is tried next and the seconds since the search began; what it raises ends the search.
using Show = std::function<void(const std::string& what, double seconds)>;

/// Texts of the best options and of the report.
std::pair<std::string, std::string> tune_program(nb::bytes json, const TensorReferences& tensors,
                                                 const TensorReferences& inputs, const std::string& machine,
                                                 const std::string& numerics, const std::string& backend,
                                                 double seconds, const std::optional<Show>& show) {
    const std::string_view text(json.c_str(), json.size());
    const nb::gil_scoped_release unlocked;
    const Imported model = import_program(text, host_tensors(tensors));
    const CompileOptions usual{machine_named(machine), numerics_named(numerics), {}};
    const Planner planner = [&](const PlanOptions& plan) {
        CompileOptions changed = usual;
        changed.plan = plan;
        return compile(model.graph, changed);
    };
    const Compiled untuned = planner({});
    const GiveInputs give_inputs = [given = host_tensors(inputs)](Session& session) {
        for (const auto& [name, tensor] : given) session.set(name, tensor);
    };
    TuneSettings settings;
    settings.seconds = seconds;
    settings.log = trial_log_path(model.graph, untuned, backend);
    const TuneProgress progress = [&](const TuneStep& step) {
        if (!show) return;
        const nb::gil_scoped_acquire locked;
        (*show)(std::string(step.what) + " " + step.plan, step.seconds);
    };
    const Contest run = contest(model, untuned, parse_backend(backend), give_inputs,
                                {.launch_us = 5'000, .most_iterations = 16, .rounds = 9});
    const Tuned tuned = tune(planner, run, usual.machine, settings, progress);
    return {to_text(tuned.best), tune_report(tuned)};
}

}  // namespace

void bind_tune(nb::module_& m) {
    m.def("tune", &tune_program, nb::arg("program_json"), nb::arg("tensors"), nb::arg("inputs"),
          nb::arg("machine"), nb::arg("numerics"), nb::arg("backend"), nb::arg("seconds"), nb::arg("show"),
          "Looks for faster plans; returns the best one's options and a report.");
}

}  // namespace stretto::python
