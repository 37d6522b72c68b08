#include "bindings.h"

NB_MODULE(_core, m) {
    m.doc() = "Stretto's compiler and executors.";
    stretto::python::bind_errors();
    stretto::python::bind_program(m);
    stretto::python::bind_kernel(m);
    stretto::python::bind_trace(m);
    stretto::python::bind_executor(m);
    stretto::python::bind_tune(m);
}
