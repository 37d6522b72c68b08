#include "import/unsupported.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "import/call.h"
#include "import/import.h"
#include "import/lowering.h"

namespace stretto {
namespace {

constexpr std::size_t kShownModules = 3;

struct Use {
    std::size_t count = 0;
    std::vector<std::string> modules;  ///< the first ones
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

std::string_view nearest(std::string_view op) {
    const auto names = supported_operations();
    return *std::min_element(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
        return edit_distance(a, op) < edit_distance(b, op);
    });
}

bool is_in_place(std::string_view base) { return base.ends_with('_') && !base.ends_with("__"); }

std::string describe(const std::string& op, const Use& use) {
    const std::string_view base = base_name(op);
    std::string text = fmt::format("\n  {} ({} {})", op, use.count, use.count == 1 ? "call" : "calls");
    if (!use.modules.empty()) text += fmt::format(" in {}", fmt::join(use.modules, ", "));
    if (is_in_place(base))
        return text + ": changes its operand in place; call run_decompositions() before saving";
    return text + fmt::format(": the nearest that is supported is {}", nearest(base));
}

}  // namespace

bool is_assertion(const schema::Node& node) {
    const std::string_view base = base_name(node.op);
    return base.starts_with("aten._assert_") || base.starts_with("aten.sym_constrain_range");
}

void reject_unsupported(const schema::Program& program) {
    std::map<std::string, Use> uses;
    for (const schema::Node& node : program.nodes) {
        if (is_assertion(node) || find_lowering(node.op) != nullptr) continue;
        Use& use = uses[node.op];
        ++use.count;
        const bool known =
            std::find(use.modules.begin(), use.modules.end(), node.module) != use.modules.end();
        if (!node.module.empty() && !known && use.modules.size() < kShownModules)
            use.modules.push_back(node.module);
    }
    if (uses.empty()) return;
    std::string message =
        fmt::format("the program uses {} that {} not supported:",
                    uses.size() == 1 ? "an operation" : fmt::format("{} operations", uses.size()),
                    uses.size() == 1 ? "is" : "are");
    for (const auto& [op, use] : uses) message += describe(op, use);
    message +=
        "\nkeep these operations out of the compiled part, or add them to a table in src/import/lower_*.cpp";
    throw UserError(message);
}

}  // namespace stretto
