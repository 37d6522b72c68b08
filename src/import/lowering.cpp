#include "import/lowering.h"

#include <map>

#include "import/import.h"

namespace stretto {
namespace {

using Index = std::map<std::string_view, const Lowering*>;

const Index& index() {
    static const Index all = [] {
        Index out;
        for (const auto* table :
             {&pointwise_lowerings(), &view_lowerings(), &reduction_lowerings(), &product_lowerings(),
              &creation_lowerings(), &indexing_lowerings(), &order_lowerings()}) {
            for (const LoweringRow& row : *table) out.emplace(row.op, &row.lower);
        }
        return out;
    }();
    return all;
}

}  // namespace

std::string_view base_name(std::string_view op) {
    const std::size_t space = op.find('.');
    return op.substr(0, op.find('.', space == std::string_view::npos ? space : space + 1));
}

const Lowering* find_lowering(std::string_view op) {
    const auto found = index().find(base_name(op));
    return found == index().end() ? nullptr : found->second;
}

std::vector<std::string_view> supported_operations() {
    std::vector<std::string_view> names;
    for (const auto& [name, lowering] : index()) names.push_back(name);
    return names;
}

}  // namespace stretto
