#include "base/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <variant>

#include "base/error.h"
#include "base/machine_files.h"

namespace stretto {
namespace {

using Json = nlohmann::ordered_json;
using Member =
    std::variant<std::string Machine::*, std::int32_t Machine::*, std::int64_t Machine::*, double Machine::*>;

struct Field {
    const char* name;
    Member member;
    double least = 0;  ///< smallest number that makes sense
};

const std::array<Field, 17> kFields{{{"name", &Machine::name},
                                     {"arch", &Machine::arch},
                                     {"workers", &Machine::workers},
                                     {"consumer_warps", &Machine::consumer_warps, 1},
                                     {"shared_bytes", &Machine::shared_bytes, 1},
                                     {"clock", &Machine::clock},
                                     {"bandwidth", &Machine::bandwidth, 1e-6},
                                     {"flops", &Machine::flops, 1e-6},
                                     {"tensor_flops", &Machine::tensor_flops, 1e-6},
                                     {"counter_us", &Machine::counter_us},
                                     {"counter_wait_us", &Machine::counter_wait_us},
                                     {"signal_us", &Machine::signal_us},
                                     {"word_us", &Machine::word_us},
                                     {"word_byte_us", &Machine::word_byte_us},
                                     {"barrier_us", &Machine::barrier_us},
                                     {"task_us", &Machine::task_us},
                                     {"load_latency_us", &Machine::load_latency_us}}};

[[noreturn]] void fail(const Field& field, const std::string& problem) {
    throw UserError(fmt::format("machine: field '{}' {}", field.name, problem));
}

std::string read(const Field& field, const Json& value, std::string*) {
    if (!value.is_string()) fail(field, "must be a string, found " + value.dump());
    return value.get<std::string>();
}

double read(const Field& field, const Json& value, double*) {
    if (!value.is_number()) fail(field, "must be a number, found " + value.dump());
    const double number = value.get<double>();
    if (!std::isfinite(number) || number < field.least) {
        fail(field, fmt::format("must be at least {}, found {}", field.least, value.dump()));
    }
    return number;
}

template <class Integer>
Integer read(const Field& field, const Json& value, Integer*) {
    if (!value.is_number_integer()) fail(field, "must be a whole number, found " + value.dump());
    const double number = read(field, value, static_cast<double*>(nullptr));
    if (number > std::numeric_limits<std::int32_t>::max()) fail(field, "is too large: " + value.dump());
    return value.get<Integer>();
}

void check_names(const Json& object) {
    for (const auto& [name, value] : object.items()) {
        const auto known = [&](const Field& field) { return field.name == name; };
        if (std::any_of(kFields.begin(), kFields.end(), known)) continue;
        throw UserError(fmt::format("machine: unknown field '{}'; compare with machines/h200.json", name));
    }
}

std::int32_t hardware_threads() {
    return std::max(1, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
}

}  // namespace

Machine parse_machine(std::string_view text) {
    const Json object = Json::parse(text, nullptr, false);
    if (object.is_discarded()) throw UserError("machine: the text is not JSON");
    if (!object.is_object()) throw UserError("machine: the text must be one JSON object");
    check_names(object);
    Machine machine;
    for (const Field& field : kFields) {
        if (!object.contains(field.name)) fail(field, "is missing; compare with machines/h200.json");
        std::visit(
            [&](auto member) {
                auto& target = machine.*member;
                target = read(field, object[field.name], &target);
            },
            field.member);
    }
    if (machine.workers == 0) machine.workers = hardware_threads();
    return machine;
}

Machine read_machine(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw UserError(path + ": cannot be opened");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    try {
        return parse_machine(text);
    } catch (const UserError& error) {
        throw UserError(path + ": " + error.what());
    }
}

std::string to_json(const Machine& machine) {
    Json object;
    for (const Field& field : kFields) {
        std::visit([&](auto member) { object[field.name] = machine.*member; }, field.member);
    }
    return object.dump(4) + "\n";
}

Machine builtin_machine(std::string_view name) {
    std::string known;
    for (const MachineFile& file : machine_files()) {
        if (file.name == name) return parse_machine(file.json);
        known += fmt::format("{}'{}'", known.empty() ? "" : ", ", file.name);
    }
    throw UserError(fmt::format("unknown machine '{}'; known: {}, or a path to a machine file", name, known));
}

Machine machine_named(const std::string& name) {
    return name.ends_with(".json") ? read_machine(name) : builtin_machine(name);
}

}  // namespace stretto
