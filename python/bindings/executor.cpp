#include "backends/cuda/executor.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_executor.h"
#include "backends/executor.h"
#include "backends/reference/reference_executor.h"
#include "base/error.h"
#include "bindings.h"
#include "python_program.h"
#include "python_trace.h"

namespace stretto::python {
namespace {

/// Buffer numbers and addresses of parameters and state.
using Kept = std::vector<std::pair<std::size_t, std::uintptr_t>>;

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

Launches launches_named(const std::string& name) {
    if (name == "one") return Launches::One;
    if (name == "kernels") return Launches::Kernels;
    if (name == "overlapped kernels") return Launches::OverlappedKernels;
    throw UserError("unknown launches '" + name + "'; known: one, kernels, overlapped kernels");
}

std::unique_ptr<Executor> executor_on(const std::string& backend, const Program& program, bool traced,
                                      Launches launches, bool packed_weights) {
    if (backend == "cuda") {
        return make_cuda_executor(
            program.plan, program.emission,
            {.launches = launches, .kernel = {.traced = traced}, .packed_weights = packed_weights});
    }
    if (launches != Launches::One) {
        throw UserError("only the cuda backend runs phases as kernels of their own");
    }
    if (backend == "cpu") {
        CpuOptions options;
        options.consumer_warps = program.machine.consumer_warps;
        options.traced = traced;
        return make_cpu_executor(program.plan, options);
    }
    if (backend == "reference") {
        ReferenceOptions options;
        options.consumer_warps = program.machine.consumer_warps;
        return make_reference_executor(program.plan, options);
    }
    throw UserError("unknown backend '" + backend + "'; known: reference, cpu, cuda");
}

/// An executor with the addresses that stay the same from launch to launch, so that a launch hands over only those
/// that vary.
class PythonExecutor {
public:
    PythonExecutor(const PythonProgram& python, const std::string& backend, const Kept& kept,
                   std::vector<std::size_t> varying, bool traced, const std::string& launches,
                   bool packed_weights)
        : program_(python.program),
          bindings_(python.program.plan.graph.regions.buffers.size()),
          varying_(std::move(varying)) {
        for (const auto& [buffer, address] : kept) bindings_.at(buffer) = pointer(address);
        const nb::gil_scoped_release unlocked;
        executor_ = executor_on(backend, python.program, traced, launches_named(launches), packed_weights);
    }

    void run(const std::vector<std::uintptr_t>& varying, std::uintptr_t stream, std::uint32_t iterations,
             std::int64_t stop, std::uintptr_t progress, std::uintptr_t granted) {
        const nb::gil_scoped_release unlocked;
        for (std::size_t i = 0; i < varying_.size(); ++i) {
            bindings_.at(varying_[i]) = pointer(varying.at(i));
        }
        executor_->run(bindings_, pointer(stream),
                       {iterations, BufferId(stop), static_cast<std::uint32_t*>(pointer(progress)),
                        static_cast<std::uint32_t*>(pointer(granted))});
    }

    void synchronize() {
        const nb::gil_scoped_release unlocked;
        executor_->synchronize();
    }

    void refresh() { executor_->refresh(); }

    [[nodiscard]] std::vector<std::string> warnings() const { return executor_->warnings(); }

    [[nodiscard]] PythonTrace trace() const {
        const nb::gil_scoped_release unlocked;
        return {program_, executor_->trace()};
    }

private:
    const Program& program_;  ///< Python keeps it alive
    Bindings bindings_;
    std::vector<std::size_t> varying_;  ///< buffers whose addresses `run` is given, in this order
    std::unique_ptr<Executor> executor_;
};

/// Region, buffer, type, shape and elements.
using Stored = std::tuple<std::string, std::string, std::string, Shape, nb::bytes>;

/// What each region stores in one run on the reference backend, in the order in which regions are done.
std::vector<Stored> stored_values(const PythonProgram& python, const Kept& bound) {
    const RegionGraph& graph = python.program.plan.graph.regions;
    std::vector<Stored> stored;
    ReferenceOptions options;
    options.consumer_warps = python.program.machine.consumer_warps;
    options.stored = [&](RegionId region, BufferId id, std::span<const std::byte> bytes) {
        const Buffer& buffer = graph[id];
        stored.emplace_back(graph[region].name, buffer.name, std::string(name(buffer.dtype)), buffer.shape,
                            nb::bytes(bytes.data(), bytes.size()));
    };
    Bindings bindings(graph.buffers.size());
    for (const auto& [buffer, address] : bound) bindings.at(buffer) = pointer(address);
    make_reference_executor(python.program.plan, options)->run(bindings, nullptr);
    return stored;
}

}  // namespace

void bind_executor(nb::module_& m) {
    m.def("stored_values", &stored_values, nb::arg("program"), nb::arg("bound"));
    nb::class_<PythonExecutor>(m, "Executor", "A program made ready to run on one backend.")
        .def(nb::init<const PythonProgram&, const std::string&, const Kept&, std::vector<std::size_t>, bool,
                      const std::string&, bool>(),
             nb::arg("program"), nb::arg("backend"), nb::arg("kept"), nb::arg("varying"),
             nb::arg("traced") = false, nb::arg("launches") = "one", nb::arg("packed_weights") = false,
             nb::keep_alive<1, 2>())
        .def("run", &PythonExecutor::run, nb::arg("varying"), nb::arg("stream"), nb::arg("iterations") = 1,
             nb::arg("stop") = -1, nb::arg("progress") = 0, nb::arg("granted") = 0)
        .def("synchronize", &PythonExecutor::synchronize)
        .def("refresh", &PythonExecutor::refresh)
        .def_prop_ro("warnings", &PythonExecutor::warnings)
        .def("trace", &PythonExecutor::trace, nb::keep_alive<0, 1>());
}

}  // namespace stretto::python
