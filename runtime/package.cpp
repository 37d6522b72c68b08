#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/archive.h"
#include "base/error.h"
#include "import/json_cursor.h"
#include "pipeline/observer.h"
#include "runtime/program.h"
#include "schedule/text.h"
#include "tile/footprints.h"
#include "verify/verify.h"

namespace stretto {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kFormat = 1;
constexpr const char* kProgramFile = "program.json";
constexpr const char* kPlanFile = "plan.txt";
constexpr const char* kKernelFile = "kernel.cu";
constexpr std::string_view kMadeBy = "'stretto compile model.pt2 -o model.stretto' writes such files";

std::span<const std::byte> bytes_of(const HostTensor& tensor) { return {tensor.bytes.get(), tensor.size}; }

bool is_bound(const Buffer& buffer) {
    return buffer.role != BufferRole::Arena && buffer.role != BufferRole::Constant;
}

/// Gives each distinct piece of memory a file, in order of first use: tied weights are stored once.
class WeightFiles {
public:
    std::string add(const HostTensor& tensor) {
        const auto [found, added] = file_of_.try_emplace({tensor.bytes.get(), tensor.size},
                                                         fmt::format("weights/{}", file_of_.size()));
        if (added) entries_.push_back({found->second, bytes_of(tensor)});
        return found->second;
    }
    [[nodiscard]] const std::vector<ArchiveEntry>& entries() const { return entries_; }

private:
    std::map<std::pair<const std::byte*, std::size_t>, std::string> file_of_;
    std::vector<ArchiveEntry> entries_;
};

Json binding_table(const Program& program, WeightFiles& weights) {
    Json table = Json::array();
    const auto& buffers = program.plan.graph.regions.buffers;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const Buffer& buffer = buffers[i];
        if (!is_bound(buffer)) continue;
        Json row{{"name", buffer.name},
                 {"role", name(buffer.role)},
                 {"dtype", name(buffer.dtype)},
                 {"shape", buffer.shape},
                 {"buffer", i}};
        const auto value = program.tensors.find(buffer.name);
        if (value != program.tensors.end()) row["weights"] = weights.add(value->second);
        table.push_back(std::move(row));
    }
    return table;
}

Json describe(const Program& program, WeightFiles& weights) {
    return {{"format", kFormat},
            {"provenance",
             {{"stretto", program.provenance.stretto},
              {"source", program.provenance.source},
              {"graph", program.provenance.graph},
              {"plan", to_text(program.provenance.plan)}}},
            {"machine", Json::parse(to_json(program.machine))},
            {"inputs", program.inputs},
            {"outputs", program.outputs},
            {"user_states", program.user_states},
            {"front_end", program.front_end},
            {"bindings", binding_table(program, weights)}};
}

void expect_equal(const JsonCursor& field, std::string_view found, std::string_view planned) {
    if (found != planned) field.fail(fmt::format("is {}, but {} says {}", found, kPlanFile, planned));
}

template <class Read>
auto list_of(const JsonCursor& list, Read&& read) {
    std::vector<decltype(read(list))> values;
    list.each([&](const JsonCursor& element) { values.push_back(read(element)); });
    return values;
}

std::shared_ptr<const std::byte> read_bytes(const ArchiveReader& archive, const std::string& entry) {
    const std::size_t size = archive.size(entry);
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
    archive.read(entry, {bytes.get(), size});
    return {bytes, bytes.get()};
}

/// Compares a row of the binding table with the plan and returns the buffer that it describes.
const Buffer& buffer_of(const JsonCursor& row, const Plan& plan) {
    const auto& buffers = plan.graph.regions.buffers;
    const std::int64_t number = row.at("buffer").integer();
    if (number < 0 || number >= static_cast<std::int64_t>(buffers.size())) {
        row.at("buffer").fail(fmt::format("is {}, but {} has {} buffers", number, kPlanFile, buffers.size()));
    }
    const Buffer& buffer = buffers[static_cast<std::size_t>(number)];
    const Shape shape = list_of(row.at("shape"), [](const JsonCursor& element) { return element.integer(); });
    expect_equal(row.at("name"), row.at("name").text(), buffer.name);
    expect_equal(row.at("role"), row.at("role").text(), name(buffer.role));
    expect_equal(row.at("dtype"), row.at("dtype").text(), name(buffer.dtype));
    expect_equal(row.at("shape"), fmt::format("{}", shape), fmt::format("{}", buffer.shape));
    return buffer;
}

std::map<std::string, HostTensor> read_tensors(const JsonCursor& table, const Plan& plan,
                                               const ArchiveReader& archive) {
    std::map<std::string, HostTensor> tensors;
    std::map<std::string, std::shared_ptr<const std::byte>> known;
    table.each([&](const JsonCursor& row) {
        const Buffer& buffer = buffer_of(row, plan);
        if (!row.has("weights")) return;
        const std::string entry = row.at("weights").text();
        const auto size = static_cast<std::size_t>(buffer.size_bytes());
        if (archive.size(entry) != size) {
            row.at("weights").fail(fmt::format("entry '{}' has {} bytes, but '{}' needs {}", entry,
                                               archive.size(entry), buffer.name, size));
        }
        // Tied weights share one entry; each has a type and a shape of its own.
        auto& bytes = known[entry];
        if (!bytes) bytes = read_bytes(archive, entry);
        tensors.emplace(buffer.name, HostTensor{buffer.dtype, buffer.shape, bytes, size});
    });
    return tensors;
}

/// Requires: the plan's buffers and `tensors` agree.
void check_values(const Program& program, const JsonCursor& table) {
    for (const Buffer& buffer : program.plan.graph.regions.buffers) {
        if (needs_value(program, buffer) && !program.tensors.contains(buffer.name)) {
            table.fail(fmt::format("{} '{}' has no weights", name(buffer.role), buffer.name));
        }
    }
}

Plan read_plan(const ArchiveReader& archive) {
    try {
        return parse_plan(archive.text(kPlanFile));
    } catch (const UserError& error) {
        throw UserError(fmt::format("{}: {}: {}", archive.path(), kPlanFile, error.what()));
    }
}

/// The proof starts from the boxes in the file, so they must be those of the regions that will run.
void check_boxes(const Plan& plan, const std::string& path) {
    for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
        const Task& task = plan.graph.tasks[t];
        const Region& region = plan.graph.regions[task.region];
        const auto refuse = [&](const std::string& why) {
            throw UserError(fmt::format("{}: {}: task #{} {}: {}; compile the model again", path, kPlanFile,
                                        t, region.name, why));
        };
        try {
            const Footprints touched = footprints(plan.graph.regions, region, task.tile);
            if (touched.reads != task.reads) refuse("reads other bytes than the plan says");
            if (touched.writes != task.writes) refuse("writes other bytes than the plan says");
        } catch (const InternalError& error) {
            refuse(error.what());
        }
    }
}

void check_proven(const Plan& plan, const std::string& path) {
    const std::vector<Fault> faults = verify(plan);
    if (faults.empty()) return check_boxes(plan, path);
    throw UserError(fmt::format("{}: {} is not safe to run; compile the model again\n{}", path, kPlanFile,
                                to_text(faults)));
}

/// Names of inputs and outputs; an empty one stands for a place without a tensor.
std::vector<std::string> bound_names(const JsonCursor& list, const Plan& plan) {
    return list_of(list, [&](const JsonCursor& element) {
        const std::string name = element.text();
        try {
            if (!name.empty()) static_cast<void>(buffer_named(plan, name));
        } catch (const UserError& error) {
            element.fail(error.what());
        }
        return name;
    });
}

Machine machine_of(const nlohmann::json& json, const JsonCursor& fields) {
    const JsonCursor machine = fields.at("machine");
    try {
        return parse_machine(json.at("machine").dump());
    } catch (const UserError& error) {
        machine.fail(error.what());
    }
}

ArchiveReader open_package(const std::string& path) {
    ArchiveReader archive(path, kMadeBy);
    if (archive.contains(kProgramFile)) return archive;
    throw UserError(fmt::format("{}: is an archive, but no Stretto program; {}", path, kMadeBy));
}

}  // namespace

void save_program(const Program& program, const std::string& path) {
    WeightFiles weights;
    const std::string description = describe(program, weights).dump(1) + "\n";
    const std::string plan = to_text(program.plan);
    std::vector<ArchiveEntry> entries{{kProgramFile, bytes_of(description)},
                                      {kPlanFile, bytes_of(plan)},
                                      {kKernelFile, bytes_of(program.emission.source)}};
    entries.insert(entries.end(), weights.entries().begin(), weights.entries().end());
    write_archive(path, entries);
}

Plan load_plan(const std::string& path) { return read_plan(open_package(path)); }

Program load_program(const std::string& path) {
    const ArchiveReader archive = open_package(path);
    const std::string place = fmt::format("{}: {}", path, kProgramFile);
    const auto json = nlohmann::json::parse(archive.text(kProgramFile), nullptr, false);
    const JsonCursor fields(json, place);
    if (json.is_discarded()) fields.fail("the text is not JSON");
    if (const std::int64_t format = fields.at("format").integer(); format != kFormat) {
        fields.at("format").fail(
            fmt::format("Stretto {} reads format {}, the file has {}; compile the model again", kVersion,
                        kFormat, format));
    }

    Program program;
    const JsonCursor provenance = fields.at("provenance");
    program.provenance = {provenance.at("stretto").text(), provenance.at("source").text(),
                          provenance.at("graph").text(), parse_plan_options(provenance.at("plan").text())};
    program.machine = machine_of(json, fields);
    program.plan = read_plan(archive);
    check_proven(program.plan, path);
    program.inputs = bound_names(fields.at("inputs"), program.plan);
    program.outputs = bound_names(fields.at("outputs"), program.plan);
    program.user_states = bound_names(fields.at("user_states"), program.plan);
    program.front_end = fields.at("front_end").text();
    program.tensors = read_tensors(fields.at("bindings"), program.plan, archive);
    check_values(program, fields.at("bindings"));

    program.emission = emit(program.plan, program.machine);
    if (program.emission.source != archive.text(kKernelFile)) {
        throw UserError(fmt::format("{}: {} is not what Stretto {} emits for {}; compile the model again",
                                    path, kKernelFile, kVersion, kPlanFile));
    }
    return program;
}

}  // namespace stretto
