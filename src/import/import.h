#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace stretto {

/// A dense row-major tensor in host memory. Several may share the same bytes (tied weights).
struct HostTensor {
    DType dtype = DType::F32;
    Shape shape;
    std::shared_ptr<const std::byte> bytes;
    std::size_t size = 0;  ///< in bytes
};

/// A PyTorch program as a graph. Inputs of role Parameter and State carry the names of `state_dict` (buffers that
/// are not persistent included), those of role User the names that PyTorch gave to the arguments.
struct Imported {
    Graph graph;
    /// Initial values of Parameter and State inputs, by input name, as far as the program came with them.
    std::map<std::string, HostTensor> tensors;
    /// Input names in calling order; empty where the program has a fixed number, flag, text or None at this place.
    std::vector<std::string> user_inputs;
    /// Output names in the order of the results; empty where the result is None or a fixed number.
    std::vector<std::string> user_outputs;
    /// Those of `user_inputs` that the program changes in place: inputs of role State, bound anew at each call.
    std::vector<std::string> user_states;
};

/// Reads a `.pt2` archive written by torch.export.save. Throws UserError naming the file and what is wrong in it; for
/// operations that are not supported, one error that lists all of them.
[[nodiscard]] Imported import_pt2(const std::string& path);

/// Imports PyTorch's ExportedProgram from its JSON form (the schema of torch/_export/serde/schema.py, major version 8).
/// `tensors`: values by state_dict name; those that are missing are bound later by the caller.
[[nodiscard]] Imported import_program(std::string_view json, std::map<std::string, HostTensor> tensors);

/// The operations that the importer lowers, e.g. "aten.mul", in alphabetical order.
[[nodiscard]] std::vector<std::string_view> supported_operations();

}  // namespace stretto
