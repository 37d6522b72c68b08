#include "cli/models.h"

#include <fmt/format.h>

#include "cli/status.h"
#include "import/import.h"

namespace stretto::cli {

bool is_exported(const std::string& path) { return path.ends_with(".pt2"); }

Program program_from(const std::string& path, const CompileOptions& options) {
    if (!is_exported(path)) {
        const Status status("reading " + path);
        return load_program(path);
    }
    const Imported model = [&] {
        const Status status("reading " + path);
        return import_pt2(path);
    }();
    const Status status(fmt::format("compiling {} for {}", path, options.machine.name));
    return make_program(compile(model.graph, options), model, path);
}

}  // namespace stretto::cli
