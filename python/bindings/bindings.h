#pragma once

#include <nanobind/nanobind.h>

/// The extension module stretto._core: thin bindings, one source per concept. Tensors cross as addresses; the Python
/// front end keeps them alive.
namespace stretto::python {

namespace nb = nanobind;

void bind_errors();                  ///< C++ errors become the classes of stretto.errors.
void bind_program(nb::module_& m);   ///< Program: import and compile, what a plan is made of, save and load.
void bind_kernel(nb::module_& m);    ///< Kernel: the CUDA kernel as compiled code.
void bind_executor(nb::module_& m);  ///< Executor: one launch.
void bind_tune(nb::module_& m);      ///< Looking for faster plans.
void bind_trace(nb::module_& m);     ///< Trace: when the tasks of one launch ran.

}  // namespace stretto::python
