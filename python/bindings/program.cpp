#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "cost/explain.h"
#include "import/import.h"
#include "pipeline/pipeline.h"
#include "python_program.h"
#include "runtime/memory_need.h"
#include "schedule/loads.h"
#include "schedule/text.h"
#include "tensor_reference.h"
#include "verify/verify.h"

namespace stretto::python {
namespace {

PythonProgram compile_program(nb::bytes json, const std::map<std::string, TensorReference>& tensors,
                              const std::string& machine_name, const std::string& numerics,
                              const std::vector<std::string>& without, const std::string& plan) {
    const std::string_view text(json.c_str(), json.size());
    const nb::gil_scoped_release unlocked;
    CompileOptions options{machine_named(machine_name), numerics_named(numerics),
                           stretto::without(without, parse_plan_options(plan))};
    Imported model = import_program(text, host_tensors(tensors));
    Compiled compiled = compile(model.graph, options);
    PythonProgram result;
    for (const StageTime& time : compiled.times) result.times.emplace_back(time.stage, time.milliseconds);
    result.program = make_program(std::move(compiled), model, "torch.export");
    return result;
}

PythonProgram load(const std::string& path) {
    const nb::gil_scoped_release unlocked;
    return {load_program(path), {}};
}

/// Writes the program with the values that Python holds.
void save(const PythonProgram& self, const std::string& path,
          const std::map<std::string, TensorReference>& tensors, std::string front_end) {
    const nb::gil_scoped_release unlocked;
    Program program = self.program;
    for (auto& [name, tensor] : host_tensors(tensors)) {
        if (program.tensors.contains(name)) program.tensors[name] = std::move(tensor);
    }
    program.front_end = std::move(front_end);
    save_program(program, path);
}

/// Copies a tensor of a loaded program to `address`. The program has no use for it from then on.
void take_tensor(PythonProgram& self, const std::string& name, std::uintptr_t address) {
    HostTensor& tensor = self.program.tensors.at(name);
    std::memcpy(reinterpret_cast<void*>(address), tensor.bytes.get(), tensor.size);
    tensor.bytes.reset();
}

/// Where the parameters, state, inputs and outputs are there already.
void check_fits_beside_tensors(const PythonProgram& self, std::int64_t bytes, std::int64_t batch,
                               bool takes_parts, bool packs_weights) {
    check_fits(self.program, {.bytes = bytes,
                              .holds_tensors = true,
                              .batch = batch,
                              .takes_parts = takes_parts,
                              .packs_weights = packs_weights});
}

std::vector<std::string> verify_program(const PythonProgram& self) {
    const nb::gil_scoped_release unlocked;
    std::vector<std::string> faults;
    for (const Fault& fault : verify(self.program.plan)) {
        faults.push_back(std::string(name(fault.kind)) + ": " + fault.message);
    }
    return faults;
}

std::map<std::string, std::int64_t> statistics(const PythonProgram& self) {
    const Plan& plan = self.program.plan;
    std::map<std::string, std::int64_t> counts{
        {"regions", std::ssize(plan.graph.regions.regions)},
        {"tasks", std::ssize(plan.graph.tasks)},
        {"workers", std::ssize(plan.workers)},
        {"kinds", std::ssize(self.program.emission.kinds)},
        {"counters", 0},
        {"barriers", 0},
        {"loads", 0},
        {"arena_bytes", plan.arena_bytes},
        {"parameter_bytes", 0},
        {"streamed_bytes", 0},
        {"packed_bytes", packed_bytes(plan)},
    };
    for (const Event& event : plan.events) {
        if (event.kind == HandOff::Counter) ++counts["counters"];
        if (event.kind == HandOff::Barrier) ++counts["barriers"];
    }
    for (const Worker& worker : plan.workers) {
        counts["loads"] += std::ssize(worker.stream);
        for (const Load& load : worker.stream) counts["streamed_bytes"] += load.bytes();
    }
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        if (buffer.role == BufferRole::Parameter) counts["parameter_bytes"] += buffer.size_bytes();
    }
    return counts;
}

}  // namespace

void bind_program(nb::module_& m) {
    nb::class_<Buffer>(m, "Buffer", "A tensor that a program binds, or keeps inside.")
        .def_ro("name", &Buffer::name)
        .def_prop_ro("role", [](const Buffer& self) { return std::string(name(self.role)); })
        .def_prop_ro("dtype", [](const Buffer& self) { return std::string(name(self.dtype)); })
        .def_ro("shape", &Buffer::shape);

    nb::class_<PythonProgram>(m, "Program", "A compiled program: plan, emitted source and records.")
        .def_prop_ro("plan_text", [](const PythonProgram& self) { return to_text(self.program.plan); })
        .def_prop_ro("source", [](const PythonProgram& self) { return self.program.emission.source; })
        .def_prop_ro("machine", [](const PythonProgram& self) { return self.program.machine.name; })
        .def_prop_ro("plan_options",
                     [](const PythonProgram& self) { return to_text(self.program.provenance.plan); })
        .def_prop_ro("arch", [](const PythonProgram& self) { return self.program.machine.arch; })
        .def_prop_ro("buffers",
                     [](const PythonProgram& self) { return self.program.plan.graph.regions.buffers; })
        .def_prop_ro("inputs", [](const PythonProgram& self) { return self.program.inputs; })
        .def_prop_ro("outputs", [](const PythonProgram& self) { return self.program.outputs; })
        .def_prop_ro("front_end", [](const PythonProgram& self) { return self.program.front_end; })
        .def_ro("times", &PythonProgram::times)
        .def_prop_ro("statistics", &statistics)
        .def("explain",
             [](const PythonProgram& self) { return explain(self.program.plan, self.program.machine); })
        .def("verify", &verify_program)
        .def("check_fits", &check_fits_beside_tensors, nb::arg("bytes"), nb::arg("batch") = 0,
             nb::arg("takes_parts") = false, nb::arg("packs_weights") = false)
        .def("save", &save, nb::arg("path"), nb::arg("tensors"), nb::arg("front_end"))
        .def("has_tensor", [](const PythonProgram& self,
                              const std::string& name) { return self.program.tensors.contains(name); })
        .def("take_tensor", &take_tensor, nb::arg("name"), nb::arg("address"));

    m.def("compile", &compile_program, nb::arg("program_json"), nb::arg("tensors"), nb::arg("machine"),
          nb::arg("numerics"), nb::arg("without"), nb::arg("plan") = "",
          "Imports an exported program and runs all stages.");
    m.def("free_host_memory", &free_host_memory, "Bytes that can be had without swapping, where known.");
    m.def("load", &load, nb::arg("path"), "Reads a package and proves its plan.");
}

}  // namespace stretto::python
