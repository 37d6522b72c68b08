#include "cli/models.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/status.h"
#include "import/import.h"

namespace stretto::cli {

Machine machine_named(const std::string& name) {
    return name.ends_with(".json") ? read_machine(name) : builtin_machine(name);
}

Numerics numerics_named(const std::string& name) {
    if (name == "fused") return Numerics::Fused;
    if (name == "exact") return Numerics::Exact;
    throw UserError(fmt::format("unknown numerics '{}'; known: fused, exact", name));
}

bool is_exported(const std::string& path) { return path.ends_with(".pt2"); }

Program program_from(const std::string& path, const std::string& machine, Numerics numerics) {
    if (!is_exported(path)) {
        const Status status("reading " + path);
        return load_program(path);
    }
    const CompileOptions options{machine_named(machine), numerics};
    const Imported model = [&] {
        const Status status("reading " + path);
        return import_pt2(path);
    }();
    const Status status(fmt::format("compiling {} for {}", path, options.machine.name));
    return make_program(compile(model.graph, options), options.machine, model, path);
}

}  // namespace stretto::cli
