#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/program.h"

namespace stretto::python {

/// What Python holds as a Program: the program, and how long each stage took (empty for a loaded one).
struct PythonProgram {
    Program program;
    std::vector<std::pair<std::string, double>> times;  ///< milliseconds
};

}  // namespace stretto::python
