#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "backends/cuda/compile.h"
#include "backends/cuda/executor.h"
#include "bindings.h"
#include "python_program.h"

namespace stretto::python {
namespace {

CompiledKernel kernel_of(const PythonProgram& self, const std::string& arch, bool use_cache) {
    const nb::gil_scoped_release unlocked;
    KernelOptions options;
    options.use_cache = use_cache;
    return compile_kernel(self.program.emission, arch.empty() ? self.program.machine.arch : arch, options);
}

nb::bytes cubin(const CompiledKernel& self) { return nb::bytes(self.cubin.data(), self.cubin.size()); }

}  // namespace

void bind_kernel(nb::module_& m) {
    nb::class_<CompiledKernel>(m, "Kernel", "Machine code of a program for one architecture.")
        .def_prop_ro("cubin", &cubin)
        .def_ro("log", &CompiledKernel::log, "The compiler's messages, with its resource report.")
        .def_ro("registers", &CompiledKernel::registers, "Registers a thread.")
        .def_ro("spill_bytes", &CompiledKernel::spill_bytes, "Bytes that a thread spills.")
        .def_ro("stack_bytes", &CompiledKernel::stack_bytes, "Bytes of local memory a thread.")
        .def_ro("warnings", &CompiledKernel::warnings, "What runs slower than it should, in words.")
        .def_ro("from_cache", &CompiledKernel::from_cache);
    m.def("compile_kernel", &kernel_of, nb::arg("program"), nb::arg("arch"), nb::arg("use_cache"),
          "Compiles the emitted source with NVRTC; needs no GPU.");
    m.def("cuda_available", &cuda_available);
}

}  // namespace stretto::python
