#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "emit/emit.h"
#include "import/import.h"
#include "pipeline/pipeline.h"
#include "schedule/plan.h"

namespace stretto {

inline constexpr std::string_view kVersion = "0.1.0";

/// Where a program came from, for reports.
struct Provenance {
    std::string stretto = std::string(kVersion);  ///< version that compiled it
    std::string source;  ///< what it was compiled from, e.g. "model.pt2"; may be empty
    std::string graph;   ///< content_hash of the graph's text form; may be empty
    PlanOptions plan;    ///< how it was planned
    bool operator==(const Provenance&) const = default;
};

/// A compiled program with everything that it needs to run: what a `.stretto` file holds.
struct Program {
    Plan plan;
    Machine machine;
    Emission emission;
    Provenance provenance;
    /// Values of Parameter buffers and first values of State buffers, by buffer name.
    std::map<std::string, HostTensor> tensors;
    // In calling order, as in Imported; an empty name is a place without a tensor.
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::vector<std::string> user_states;  ///< inputs that are states without a first value
    std::string front_end;                 ///< what a front end keeps here for itself; may be empty
};

/// Joins a compiled plan with the tensors of the model that it was compiled from.
/// Throws UserError naming the parameter or state without a value, or with a value of another type or size.
[[nodiscard]] Program make_program(Compiled compiled, const Imported& model, std::string source);

/// Writes a package: a zip file without compression and without time stamps, so that the same program gives the same
/// bytes. It appears under `path` complete or not at all.
///   program.json   format version, provenance, machine, inputs and outputs, binding table
///   plan.txt       the plan's text form
///   kernel.cu      the emitted source, for reading; it is emitted again on load
///   weights/N      raw tensors that the binding table names
void save_program(const Program& program, const std::string& path);

/// Reads a package and proves its plan. Throws UserError naming the file and the field that is missing or wrong, or
/// every fault of the plan: a program that loads is safe to run.
[[nodiscard]] Program load_program(const std::string& path);

/// The plan of a package, not proven: for reports about plans that `load_program` refuses.
[[nodiscard]] Plan load_plan(const std::string& path);

/// Does the program itself hold the buffer's (first) value?
[[nodiscard]] bool needs_value(const Program& program, const Buffer& buffer);

/// The buffer of the given name that lives outside the arena. Throws UserError listing the names that exist.
[[nodiscard]] BufferId buffer_named(const Plan& plan, std::string_view name);

[[nodiscard]] std::string_view name(BufferRole role);  ///< e.g. "parameter"

}  // namespace stretto
