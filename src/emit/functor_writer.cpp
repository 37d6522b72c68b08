#include "emit/functor_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "emit/cuda_types.h"
#include "graph/index_groups.h"

namespace stretto {
namespace {

std::string number(std::int64_t value) { return fmt::format("{}", value); }

/// Makes `load` a member of a struct, and its initializer part of `values`; returns the member. One load serves equal ones.
std::string kept(const Statements::EarlyLoad& load, CudaStruct& early, std::string& values) {
    auto found = std::find_if(early.members.begin(), early.members.end(),
                              [&](const CudaMember& member) { return member.value == load.value; });
    if (found == early.members.end()) {
        const std::string member = fmt::format("e{}", early.members.size());
        found = early.members.insert(found, {load.type, member, load.value});
        if (load.words) early.words.push_back({member, *load.words});
        values += (values.empty() ? "" : ", ") + load.value;
    }
    return found->name;
}

}  // namespace

CudaMember constant(const char* name, std::int64_t value) { return {"I32", name, number(value)}; }

CudaMember flag(const char* name, bool value) { return {"bool", name, value ? "true" : "false"}; }

void ensure_small(std::int64_t positions) {
    ensure(positions <= std::numeric_limits<std::int32_t>::max(),
           "a region's space exceeds 32-bit positions");
}

const char* combine_of(ReduceOp op) {
    return op == ReduceOp::Sum ? "SumOf" : op == ReduceOp::Max ? "MaxOf" : "MinOf";
}

std::string coordinate(const char* name, std::int64_t extent) { return extent == 1 ? "0" : name; }

void FunctorWriter::alias(const char* name, std::string type) {
    kind_.functor.aliases.push_back({std::move(type), name, ""});
}

void FunctorWriter::add_function(const char* result, const char* name, std::vector<CudaMember> parameters,
                                 std::vector<std::string> body) {
    kind_.functor.functions.push_back({result, name, std::move(parameters), std::move(body)});
}

std::vector<std::string> FunctorWriter::unravelled(const std::string& position, const Shape& shape,
                                                   std::size_t first, std::vector<std::string>& names) {
    std::vector<std::string> lines;
    const Shape strides = row_major_strides(shape);
    const auto outer = static_cast<std::size_t>(
        std::find_if(shape.begin(), shape.end(), [](std::int64_t extent) { return extent != 1; }) -
        shape.begin());
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) {
            names.emplace_back("0");
            continue;
        }
        std::string digit = strides[d] == 1 ? position : fmt::format("{} / {}", position, strides[d]);
        if (d != outer) digit += fmt::format(" % {}", shape[d]);
        names.push_back(fmt::format("i{}", first + d));
        lines.push_back(fmt::format("const I32 {} = {};", names.back(), digit));
    }
    return lines;
}

std::vector<std::string> FunctorWriter::returned(const Expr& expr, Scope scope, DType type,
                                                 std::vector<std::string> lines) {
    Statements body(pointers_, std::move(scope));
    for (std::string& line : lines) body.add(std::move(line));
    const std::string result = body.evaluate(expr).back();
    body.add(fmt::format("return {};", converted(result, expr.type(), type)));
    return body.take();
}

Statements::Known FunctorWriter::known_early(Statements& loads, const Expr& expr, CudaStruct& early,
                                             std::string& values) {
    Statements::Known known;
    for (const Statements::EarlyLoad& load : loads.early_loads(expr)) {
        const std::string member = "early." + kept(load, early, values);
        known[load.node] =
            load.words ? converted(member + ".value()", load.element, expr.nodes[load.node].type) : member;
    }
    return known;
}

Statements::Known FunctorWriter::known_vectors(Statements& loads, const Expr& expr, std::size_t dim,
                                               std::int64_t count, CudaStruct& early, std::string& values) {
    Statements::Known known;
    for (const Statements::EarlyLoad& load : loads.early_vectors(expr, dim, count)) {
        const std::string member = "early." + kept(load, early, values);
        const char* value = load.vector ? ".value(v)" : load.words ? ".value()" : "";
        known[load.node] = load.vector || load.words
                               ? converted(member + value, load.element, expr.nodes[load.node].type)
                               : member;
    }
    return known;
}

Statements::Known FunctorWriter::known_group(Statements& loads, const Expr& expr, std::size_t dim,
                                             std::int64_t count, CudaStruct& early, std::string& values) {
    return count > 1 ? known_vectors(loads, expr, dim, count, early, values)
                     : known_early(loads, expr, early, values);
}

Statements::Known FunctorWriter::known_shared(Statements& body, const Expr& expr, CudaStruct& shared,
                                              std::string& values, const std::string& name,
                                              const std::function<bool(const IndexMap&)>& same) {
    Statements::Known known;
    for (const Statements::EarlyLoad& value : body.shared_values(expr, same))
        known[value.node] = value.value.empty() ? "" : name + "." + kept(value, shared, values);
    return known;
}

void FunctorWriter::add_stores(const std::vector<Store>& list, const Place& place) {
    CudaStruct early{"Early", {}, {}};
    std::string values;
    Statements loads(pointers_, place.scope);
    Statements body(pointers_, place.scope);
    for (const std::string& line : place.lines) {
        loads.add(line);
        body.add(line);
    }
    for (const Store& store : list) {
        body.store(store, known_early(loads, store.expr, early, values));
    }
    loads.add(fmt::format("return {{{}}};", values));
    add_function("Early", "load", place.at, loads.take());
    std::vector<CudaMember> at = place.at;
    at.insert(at.end(), place.results.begin(), place.results.end());
    at.push_back({"const Early&", "early", ""});
    add_function("void", "store", std::move(at), body.take());
    kind_.functor.structs.push_back(std::move(early));
}

void FunctorWriter::add_vector_stores(const std::vector<Store>& list, const Place& place, std::size_t dim,
                                      std::int64_t count, const char* length) {
    const bool gathers =
        count > 1 && std::any_of(list.begin(), list.end(), [](const Store& store) {
            return std::any_of(store.expr.nodes.begin(), store.expr.nodes.end(), [](const ExprNode& node) {
                return node.op == Op::Load && !node.args.empty();
            });
        });
    kind_.functor.constants.push_back(constant(length, count));
    kind_.functor.constants.push_back(flag("kGathers", gathers));
    if (count == 1) return;
    CudaStruct early{"EarlyVector", {}, {}};
    CudaStruct uniform{"Uniform", {}, {}};
    std::string values;
    std::string uniform_values;
    Statements outer(pointers_, place.scope, 'g');  // of the first neighbour
    Statements loads(pointers_, place.scope);
    Statements uniform_body(pointers_, place.scope);
    for (const std::string& line : place.lines) {
        loads.add(line);
        outer.add(line);
    }
    Scope inside = place.scope;
    const std::string first = inside.coordinates.at(dim);
    inside.coordinates[dim] = first + "v";
    if (!inside.accumulators.empty() && !place.of_row)
        inside.accumulators = fmt::format("acc[{{}} * {} + v]", count);
    Statements inner(pointers_, inside);
    inner.add(fmt::format("[[maybe_unused]] const I32 {}v = {} + v;", first, first));
    std::vector<std::string> ends;
    for (std::size_t s = 0; s < list.size(); ++s) {
        const Store& store = list[s];
        Statements::Known known = known_vectors(loads, store.expr, dim, count, early, values);
        known.merge(known_shared(uniform_body, store.expr, uniform, uniform_values, "uniform",
                                 [](const IndexMap& map) { return is_uniform(map); }));
        known.merge(outer.group_values(store.expr, dim, count, known));
        if (!lies_in_groups(store.target.map, dim, count)) {
            inner.store(store, known);
            continue;
        }
        outer.add(fmt::format("Vector<{}, {}> s{};", element_name(store.target.type), count, s));
        inner.add(fmt::format("s{}.set(v, {});", s, inner.value_of(store, known)));
        ends.push_back(outer.written(store.target, fmt::format("s{}", s)));
    }
    loads.add(fmt::format("return {{{}}};", values));
    add_function("EarlyVector", "load_vector", place.at, loads.take());
    uniform_body.add(fmt::format("return {{{}}};", uniform_values));
    add_function("Uniform", "uniform", {}, uniform_body.take());
    outer.add("#pragma unroll");
    outer.add(fmt::format("for (I32 v = 0; v < {}; ++v) {{", count));
    for (const std::string& line : inner.take()) outer.add("    " + line);
    outer.add("}");
    for (std::string& line : ends) outer.add(std::move(line));
    std::vector<CudaMember> at = place.at;
    at.insert(at.end(), place.results.begin(), place.results.end());
    at.push_back({"const EarlyVector&", "early", ""});
    at.push_back({"const Uniform&", "uniform", ""});
    add_function("void", "store_vector", std::move(at), outer.take());
    kind_.functor.structs.push_back(std::move(early));
    kind_.functor.structs.push_back(std::move(uniform));
}

void FunctorWriter::add_terms(const Pass& pass, std::int64_t number, const Place& place, std::size_t dim,
                              std::int64_t count, DType acc, bool held) {
    Statements outer(pointers_, place.scope, 'g');
    for (const std::string& line : place.lines) outer.add(line);
    Scope inside = place.scope;
    // Elements of 16 bits are further off themselves.
    const auto is_narrow = [](const Access& access) { return is_narrow_float(access.type); };
    if (std::any_of(pass.expr.accesses.begin(), pass.expr.accesses.end(), is_narrow))
        inside.quick = Quick::Exponentials;
    Statements::Known known;
    std::string neighbour = "0";
    std::string first;
    if (count > 1) {
        neighbour = "v";
        first = inside.coordinates.at(dim);
        inside.coordinates[dim] = first + "v";
    }
    if (held) {
        CudaStruct early;
        std::string values;
        known = known_group(outer, pass.expr, dim, count, early, values);
    } else if (count > 1) {
        for (const Statements::EarlyLoad& load : outer.early_vectors(pass.expr, dim, count)) {
            const std::string name = fmt::format("e{}", known.size());
            outer.add(fmt::format("const {} {} = {};", load.type, name, load.value));
            known[load.node] =
                load.vector ? converted(name + ".value(v)", load.element, pass.expr.nodes[load.node].type)
                            : name;
        }
    }
    if (count > 1) known.merge(outer.group_values(pass.expr, dim, count, known));
    Statements inner(pointers_, inside);
    if (count > 1) inner.add(fmt::format("[[maybe_unused]] const I32 {}v = {} + v;", first, first));
    const std::vector<std::string> variables = inner.evaluate(pass.expr, known);
    for (std::size_t j = 0; j < pass.nodes.size(); ++j) {
        const auto node = static_cast<std::size_t>(pass.nodes[j]);
        inner.add(fmt::format("values[{} * {} + {}] = {};", j, count, neighbour,
                              converted(variables[node], pass.expr.nodes[node].type, acc)));
    }
    if (count > 1) {
        outer.add("#pragma unroll");
        outer.add(fmt::format("for (I32 v = 0; v < {}; ++v) {{", count));
    }
    for (const std::string& line : inner.take()) outer.add((count > 1 ? "    " : "") + line);
    if (count > 1) outer.add("}");
    std::vector<CudaMember> at{{fmt::format("Number<{}>", number), "", ""},
                               {fmt::format("Number<{}>", count), "", ""}};
    at.insert(at.end(), place.at.begin(), place.at.end());
    at.insert(at.end(), place.results.begin(), place.results.end());
    if (held) at.push_back({"const Held&", "early", ""});
    at.push_back({"Acc*", "values", ""});
    add_function("void", "terms", std::move(at), outer.take());
}

bool FunctorWriter::add_held(const std::vector<Pass>& passes, const Place& place, std::size_t dim,
                             std::int64_t count, std::int64_t groups) {
    constexpr std::int64_t kMostHeld = 256;  // bytes
    CudaStruct held{"Held", {}, {}};
    Statements body(pointers_, place.scope);
    for (const std::string& line : place.lines) body.add(line);
    std::string values;
    for (const Pass& pass : passes) {
        CudaStruct own{"Held", {}, {}};
        std::string own_values;
        std::int64_t bytes = 0;
        const auto loads =
            count > 1 ? body.early_vectors(pass.expr, dim, count) : body.early_loads(pass.expr);
        for (const Statements::EarlyLoad& load : loads) {
            const bool fits = count == 1 || (load.vector && !load.words);
            if (!fits || !pass.expr.nodes[load.node].args.empty()) return false;
            const std::int64_t element = load.words ? pointers_.buffer(*load.words).element_bytes()
                                                    : static_cast<std::int64_t>(size_of(load.element));
            bytes += element * count;
        }
        known_group(body, pass.expr, dim, count, own, own_values);
        const auto is_load = [](const ExprNode& node) { return node.op == Op::Load; };
        const auto all = std::count_if(pass.expr.nodes.begin(), pass.expr.nodes.end(), is_load);
        const bool first = &pass == &passes.front();
        if (all == 0 || all != std::ssize(loads) || bytes * groups > kMostHeld) return false;
        if (!first && own_values != values) return false;
        held = std::move(own);
        values = std::move(own_values);
    }
    body.add(fmt::format("return {{{}}};", values));
    add_function("Held", "hold", place.at, body.take());
    kind_.functor.structs.push_back(std::move(held));
    return true;
}

CudaKind FunctorWriter::finished() {
    for (std::size_t slot : pointers_.used()) {
        const Buffer& buffer = pointers_.buffer(slot);
        kind_.functor.pointers.push_back(
            {memory_name(buffer), fmt::format("p{}", slot), fmt::format("{}", slot)});
        kind_.functor.words |= buffer.tagged;
    }
    return std::move(kind_);
}

}  // namespace stretto
