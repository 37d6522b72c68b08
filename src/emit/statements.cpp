#include "emit/statements.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "emit/group_values.h"
#include "fuse/groups.h"
#include "graph/index_groups.h"
#include "graph/value_range.h"

namespace stretto {
namespace {

/// Is a division one of numbers from 0 to what 32 bits hold?
bool is_short_division(const Expr& expr, const ExprNode& node) {
    const auto ranges = value_ranges(expr);
    return std::all_of(node.args.begin(), node.args.end(), [&](std::int32_t arg) {
        const auto& range = ranges[static_cast<std::size_t>(arg)];
        return range && contains(Range{0, std::int64_t{1} << 32}, *range);
    });
}

}  // namespace

std::string Pointers::name(BufferId buffer) {
    const auto found = std::find(slots_.begin(), slots_.end(), buffer);
    ensure(found != slots_.end(), "a region reads a buffer that is not among its uses");
    const auto slot = static_cast<std::size_t>(found - slots_.begin());
    used_.insert(slot);
    return fmt::format("p{}", slot);
}

std::optional<std::size_t> Pointers::words(BufferId buffer) const {
    if (!graph_[buffer].tagged) return std::nullopt;
    return static_cast<std::size_t>(std::find(slots_.begin(), slots_.end(), buffer) - slots_.begin());
}

bool Pointers::wide(BufferId buffer) const {
    return volume(graph_[buffer].shape) > std::numeric_limits<std::int32_t>::max();
}

std::string Statements::declare(DType type, const std::string& value) {
    std::string name = fmt::format("{}{}", letter_, next_variable_++);
    add(fmt::format("const {} {} = {};", value_name(type), name, value));
    return name;
}

IndexText Statements::index(const Access& access, const std::vector<std::string>& indirect) const {
    IndexText text = index_text(access.map, scope_.coordinates, pointers_.wide(BufferId(access.source)));
    for (std::size_t i = 0; i < indirect.size(); ++i) {
        text.offset += fmt::format(" + {} * {}", indirect[i], access.indirect[i].stride);
    }
    return text;
}

std::string Statements::load(const Access& access, const std::vector<std::string>& indirect) {
    const BufferId buffer(access.source);
    const IndexText at = index(access, indirect);
    const auto slot = pointers_.words(buffer);
    const std::string words = slot ? fmt::format(", words, {}", *slot) : "";
    const std::string value = fmt::format("read({} + ({}){})", pointers_.name(buffer), at.offset, words);
    if (at.inside.empty()) return value;
    return fmt::format("({}) ? {} : {}(0)", at.inside, value, value_name(access.type));
}

void Statements::write_at(const Access& access, const std::vector<std::string>& indirect,
                          const std::string& element) {
    const BufferId buffer(access.source);
    const IndexText at = index(access, indirect);
    const std::string statement = fmt::format("write({} + ({}), {}{});", pointers_.name(buffer), at.offset,
                                              element, pointers_.words(buffer) ? ", words" : "");
    add(at.inside.empty() ? statement : fmt::format("if ({}) {}", at.inside, statement));
}

std::string Statements::value_of(const Expr& expr, const ExprNode& node,
                                 const std::vector<std::string>& variables) {
    std::vector<Operand> operands;
    for (std::int32_t arg : node.args) {
        const auto i = static_cast<std::size_t>(arg);
        operands.push_back({variables[i], expr.nodes[i].type});
    }
    switch (node.op) {
        case Op::Const:
            return is_float(node.type) ? literal(node.value, node.type) : literal(node.integer, node.type);
        case Op::Index:
            return scope_.coordinates.at(static_cast<std::size_t>(node.integer));
        case Op::Load: {
            const Access& access = expr.accesses.at(static_cast<std::size_t>(node.integer));
            return converted(load(access, indirect_of(expr, node.args, access, variables)), access.type,
                             node.type);
        }
        case Op::FloorDiv:
        case Op::Mod:
            if (is_short_division(expr, node)) {
                return fmt::format("static_cast<U32>({}) {} static_cast<U32>({})", operands[0].text,
                                   node.op == Op::Mod ? '%' : '/', operands[1].text);
            }
            return operation_text(node, operands, scope_.quick);
        case Op::Acc:
            ensure(!scope_.accumulators.empty(), "an accumulator is used where the region has none");
            return converted(fmt::format(fmt::runtime(scope_.accumulators), node.integer),
                             scope_.accumulator_type, node.type);
        case Op::Stat:
            return converted(fmt::format("stat[{}]", node.integer), scope_.accumulator_type, node.type);
        default:
            return operation_text(node, operands, scope_.quick);
    }
}

std::vector<std::string> Statements::evaluate(const Expr& expr, const Known& known) {
    std::vector<std::string> variables;
    for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
        const ExprNode& node = expr.nodes[i];
        const auto found = known.find(i);
        variables.push_back(found != known.end() ? found->second
                                                 : declare(node.type, value_of(expr, node, variables)));
    }
    return variables;
}

std::vector<std::string> Statements::indirect_of(const Expr& expr, const std::vector<std::int32_t>& nodes,
                                                 const Access& access,
                                                 const std::vector<std::string>& variables) const {
    const auto ranges = value_ranges(expr);
    const bool wide = pointers_.wide(BufferId(access.source));
    std::vector<std::string> indirect;
    for (std::size_t d = 0; d < nodes.size(); ++d) {
        const auto i = static_cast<std::size_t>(nodes[d]);
        const std::int64_t extent = access.indirect[d].extent;
        const std::string at = converted(variables[i], expr.nodes[i].type, DType::I64);
        if (!ranges[i] || !contains(Range{0, extent}, *ranges[i])) {
            indirect.push_back(fmt::format("wrapped({}, {})", at, extent));
        } else {
            indirect.push_back(wide ? at : fmt::format("static_cast<I32>({})", at));
        }
    }
    return indirect;
}

void Statements::share(const Expr& expr, std::size_t i, std::vector<std::string>& variables) {
    if (!variables[i].empty()) return;
    place(expr, i, variables);
    const ExprNode& node = expr.nodes[i];
    const std::string value = value_of(expr, node, variables);
    std::string& known = shared_[fmt::format("{} {}", value_name(node.type), value)];
    if (known.empty()) known = declare(node.type, value);
    variables[i] = known;
}

void Statements::place(const Expr& expr, std::size_t i, std::vector<std::string>& variables) {
    for (std::int32_t arg : expr.nodes[i].args) share(expr, static_cast<std::size_t>(arg), variables);
}

bool Statements::waits_for_place(const Expr& expr, std::size_t i) const {
    return std::any_of(expr.nodes[i].args.begin(), expr.nodes[i].args.end(), [&](std::int32_t arg) {
        const Expr coordinate = extracted(expr, arg);
        return std::any_of(coordinate.accesses.begin(), coordinate.accesses.end(), [&](const Access& access) {
            return pointers_.words(BufferId(access.source)).has_value();
        });
    });
}

Statements::EarlyLoad Statements::early_load(const Expr& expr, std::size_t i,
                                             const std::vector<std::string>& variables) {
    const ExprNode& node = expr.nodes[i];
    const Access& access = expr.accesses.at(static_cast<std::size_t>(node.integer));
    const auto slot = pointers_.words(BufferId(access.source));
    if (!slot) return {i, value_name(node.type), value_of(expr, node, variables), node.type, std::nullopt};
    const std::string inside = index(access, {}).inside;
    const std::string value = inside.empty()
                                  ? fmt::format("ask({})", address(access))
                                  : fmt::format("ask_where({}, {}, words.tag())", inside, address(access));
    return {i, fmt::format("Word<{}>", memory_name(pointers_.buffer(*slot))), value, access.type, slot};
}

std::vector<Statements::EarlyLoad> Statements::early_loads(const Expr& expr) {
    std::vector<EarlyLoad> loads;
    for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
        if (expr.nodes[i].op == Op::Load && expr.nodes[i].args.empty()) loads.push_back(early_load(expr, i));
    }
    return loads;
}

std::vector<Statements::EarlyLoad> Statements::early_vectors(const Expr& expr, std::size_t dim,
                                                             std::int64_t count) {
    std::vector<EarlyLoad> loads;
    std::vector<std::string> variables(expr.nodes.size());
    for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
        const ExprNode& node = expr.nodes[i];
        if (node.op != Op::Load || !shares_place(expr, node, dim)) continue;
        const Access& access = expr.accesses.at(static_cast<std::size_t>(node.integer));
        const auto slot = pointers_.words(BufferId(access.source));
        if (!node.args.empty() && (slot || waits_for_place(expr, i))) continue;
        if (loads_together(expr, node, dim, count) && !(slot && access.map.masked())) {
            place(expr, i, variables);
            const IndexText at = index(access, indirect_of(expr, node.args, access, variables));
            const std::string type =
                slot ? fmt::format("WordVector<{}, {}>", memory_name(pointers_.buffer(*slot)), count)
                     : fmt::format("Vector<{}, {}>", element_name(access.type), count);
            std::string value = fmt::format("{}<{}>({} + ({}))", slot ? "ask_vector" : "read_vector", count,
                                            pointers_.name(BufferId(access.source)), at.offset);
            if (!at.inside.empty()) value = fmt::format("({}) ? {} : {}{{}}", at.inside, value, type);
            loads.push_back({i, type, value, access.type, slot, true});
        } else if (!moves_within_groups(access.map, dim, count)) {
            const bool uniform = node.args.empty() && is_uniform(access.map) && !slot;
            if (uniform) continue;
            place(expr, i, variables);
            loads.push_back(early_load(expr, i, variables));
        }
    }
    return loads;
}

std::vector<Statements::EarlyLoad> Statements::shared_values(
    const Expr& expr, const std::function<bool(const IndexMap&)>& same) {
    const std::size_t count = expr.nodes.size();
    std::vector<bool> constant(count), uniform(count), used(count);
    for (std::size_t i = 0; i < count; ++i) {
        const ExprNode& node = expr.nodes[i];
        const auto all = [&](auto&& holds) { return std::all_of(node.args.begin(), node.args.end(), holds); };
        constant[i] = node.op == Op::Const;
        if (node.op == Op::Load && node.args.empty()) {
            const Access& access = expr.accesses.at(static_cast<std::size_t>(node.integer));
            uniform[i] = same(access.map) && !pointers_.words(BufferId(access.source));
        } else if (!node.args.empty() && node.op != Op::Load) {
            uniform[i] = all([&](std::int32_t arg) { return constant[arg] || uniform[arg]; }) &&
                         !all([&](std::int32_t arg) { return constant[arg]; });
        }
        if (uniform[i]) continue;
        for (std::int32_t arg : node.args) used[arg] = true;
    }
    used.back() = true;
    std::vector<EarlyLoad> values;
    std::vector<std::string> variables(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (!uniform[i]) continue;
        if (used[i]) share(expr, i, variables);
        values.push_back(
            {i, value_name(expr.nodes[i].type), used[i] ? variables[i] : "", expr.nodes[i].type, {}});
    }
    return values;
}

Statements::Known Statements::group_values(const Expr& expr, std::size_t dim, std::int64_t count,
                                           const Known& known) {
    std::vector<std::string> variables(expr.nodes.size());
    std::set<std::size_t> same;
    for (const auto& [i, variable] : known) {
        const ExprNode& node = expr.nodes[i];
        const bool moves =
            node.op == Op::Load &&
            moves_within_groups(expr.accesses[static_cast<std::size_t>(node.integer)].map, dim, count);
        if (moves || variable.empty()) continue;
        same.insert(i);
        variables[i] = variable;
    }
    const std::vector<InGroup> ways = ways_in_groups(expr, dim, count, same);
    Known found;
    for (std::size_t i = 0; i < ways.size(); ++i) {
        if (ways[i] == InGroup::Same && known.count(i) == 0) found[i] = "";
    }
    const auto evaluate_here = [&](std::int32_t node) {
        const auto at = found.find(static_cast<std::size_t>(node));
        if (at == found.end() || !at->second.empty()) return;
        share(expr, at->first, variables);
        at->second = variables[at->first];
    };
    for (std::size_t i = 0; i < ways.size(); ++i) {
        if (ways[i] == InGroup::Same) continue;
        for (std::int32_t arg : expr.nodes[i].args) evaluate_here(arg);
    }
    evaluate_here(expr.root());
    return found;
}

std::string Statements::address(const Access& access) {
    return fmt::format("{} + ({})", pointers_.name(BufferId(access.source)), index(access, {}).offset);
}

std::string Statements::read(const Access& access) { return declare(access.type, load(access, {})); }

void Statements::write(const Access& access, const std::string& value, DType type) {
    write_at(access, {}, converted(value, type, is_narrow_float(access.type) ? DType::F32 : access.type));
}

std::vector<std::string> Statements::evaluate(const Store& store, const Known& known) {
    const bool narrow = is_narrow_float(store.target.type) && scope_.quick == Quick::Nothing;
    const Quick own = std::exchange(scope_.quick, narrow ? Quick::Exponentials : scope_.quick);
    std::vector<std::string> variables = evaluate(store.expr, known);
    scope_.quick = own;
    return variables;
}

void Statements::store(const Store& store, const Known& known) {
    const std::vector<std::string> variables = evaluate(store, known);
    write_at(store.target, indirect_of(store.expr, store.indices, store.target, variables),
             stored(store, variables.back()));
}

std::string Statements::written(const Access& access, const std::string& vector) {
    const std::string inside = index(access, {}).inside;
    const std::string statement = fmt::format("write_vector({}, {});", address(access), vector);
    return inside.empty() ? statement : fmt::format("if ({}) {}", inside, statement);
}

std::string Statements::value_of(const Store& store, const Known& known) {
    return stored(store, evaluate(store, known).back());
}

std::string Statements::stored(const Store& store, const std::string& value) {
    const DType type = store.target.type;
    // `write` and `set` round to narrow floats themselves.
    return converted(value, store.expr.type(), is_narrow_float(type) ? DType::F32 : type);
}

}  // namespace stretto
