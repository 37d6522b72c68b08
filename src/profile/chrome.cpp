#include "profile/chrome.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "profile/bus_time.h"
#include "profile/critical_path.h"
#include "schedule/text.h"

namespace stretto {
namespace {

/// Groups of rows, and what their rows are called.
enum Group : int { kTasks = 1, kPublishing = 2, kLoads = 3 };

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string plan_hash(const Plan& plan) { return content_hash(to_text(plan)); }

class ChromeFile {
public:
    ChromeFile(const Trace& trace, const Plan& plan, const Machine& machine)
        : trace_(trace), plan_(plan), machine_(machine), out_(std::back_inserter(text_)) {}

    std::string write() {
        fmt::format_to(
            out_,
            "{{\"displayTimeUnit\": \"ns\",\n\"otherData\": {{\"backend\": {}, \"tick\": {}, \"total\": "
            "{}, \"plan\": \"{}\"}},\n\"traceEvents\": [",
            quoted(trace_.backend), trace_.tick, trace_.total, plan_hash(plan_));
        rows(kTasks, "tasks");
        rows(kPublishing, "publishing");
        if (has_loads()) rows(kLoads, "loads (ends are estimated)");
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            for (const Step& step : plan_.workers[w].queue) task(w, step.task);
        }
        loads();
        arrows();
        text_ += "\n]}\n";
        return std::move(text_);
    }

private:
    void begin_event() {
        text_ += first_ ? "\n" : ",\n";
        first_ = false;
    }

    void rows(Group group, const char* name) {
        begin_event();
        fmt::format_to(out_, R"({{"ph": "M", "pid": {}, "name": "process_name", "args": {{"name": "{}"}}}})",
                       static_cast<int>(group), name);
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            begin_event();
            fmt::format_to(
                out_,
                R"({{"ph": "M", "pid": {}, "tid": {}, "name": "thread_name", "args": {{"name": "worker {}"}}}})",
                static_cast<int>(group), w, w);
        }
    }

    /// One bar. `arguments` is empty or a JSON object with its members.
    void bar(Group group, std::size_t worker, double begin, double end, const std::string& name,
             std::string_view category, const std::string& arguments = {}) {
        begin_event();
        fmt::format_to(
            out_,
            R"({{"ph": "X", "pid": {}, "tid": {}, "ts": {:.4f}, "dur": {:.4f}, "name": {}, "cat": "{}")",
            static_cast<int>(group), worker, begin, end - begin, name, category);
        if (!arguments.empty()) fmt::format_to(out_, ", \"args\": {}", arguments);
        text_ += '}';
    }

    void task(std::size_t w, TaskId id) {
        const TaskTimes& times = trace_.tasks[id.index()];
        const Region& region = plan_.graph.regions[plan_.graph[id].region];
        const std::string name = quoted(region.name);
        if (times.ready > times.begun) bar(kTasks, w, times.begun, times.ready, "\"wait\"", "wait");
        bar(kTasks, w, times.ready, times.computed, name, kKindNames.at(region.body.index()),
            fmt::format("{{\"task\": {}, \"times\": [{}, {}, {}, {}, {}, {}]}}", id.value, times.begun,
                        times.ready, times.staged, times.computed, times.published, times.stalled));
        if (times.staged > times.ready) {
            bar(kTasks, w, times.ready, times.staged, "\"stage\"", "stage");
            bar(kTasks, w, times.staged, times.computed, "\"compute\"", "compute");
        }
        bar(kPublishing, w, times.computed, times.published, name, "publish");
    }

    [[nodiscard]] bool has_loads() const {
        return std::any_of(trace_.loads.begin(), trace_.loads.end(),
                           [](const std::vector<double>& loads) { return !loads.empty(); });
    }

    /// A worker's loads are drawn one after the other, although several are under way: bars of a row must not overlap.
    void loads() {
        const auto bus = bus_time(plan_, trace_, machine_);
        if (!bus) return;
        for (std::size_t w = 0; w < trace_.loads.size(); ++w) {
            double before = 0;
            for (std::size_t i = 0; i < trace_.loads[w].size(); ++i) {
                const Load& load = plan_.workers[w].stream[i];
                const double begin = std::max(trace_.loads[w][i], before);
                const double end = std::max(bus->landed[w][i], begin);
                bar(kLoads, w, begin, end, quoted(plan_.graph.regions[load.buffer].name), "load",
                    fmt::format("{{\"load\": {}, \"issued\": {}, \"task\": {}}}", i, trace_.loads[w][i],
                                load.task.value));
                before = end;
            }
        }
    }

    void arrows() {
        const std::vector<Hop> path = critical_path(plan_, trace_, simulate(plan_, machine_));
        for (std::size_t i = 1; i < path.size(); ++i) {
            if (!path[i].handed_over) continue;
            const TaskTimes& from = trace_.tasks[path[i - 1].task.index()];
            const TaskTimes& to = trace_.tasks[path[i].task.index()];
            arrow("s", i, path[i - 1].worker, (from.staged + from.computed) / 2);
            arrow("f", i, path[i].worker, (to.staged + to.computed) / 2);
        }
    }

    /// One end of an arrow; it belongs to the bar that is there at that time.
    void arrow(const char* end, std::size_t number, std::size_t worker, double time) {
        begin_event();
        fmt::format_to(
            out_,
            R"({{"ph": "{}", "pid": {}, "tid": {}, "ts": {:.4f}, "id": {}, "name": "critical path", )"
            R"("cat": "critical path", "bp": "e"}})",
            end, static_cast<int>(kTasks), worker, time, number);
    }

    const Trace& trace_;
    const Plan& plan_;
    const Machine& machine_;
    std::string text_;
    std::back_insert_iterator<std::string> out_;
    bool first_ = true;
};

Trace read(const nlohmann::json& json, const Plan& plan) {
    const nlohmann::json& header = json.at("otherData");
    Trace trace;
    header.at("backend").get_to(trace.backend);
    header.at("tick").get_to(trace.tick);
    header.at("total").get_to(trace.total);
    trace.tasks.resize(plan.graph.tasks.size());
    trace.loads.resize(plan.workers.size());
    for (const nlohmann::json& event : json.at("traceEvents")) {
        const auto arguments = event.find("args");
        if (arguments == event.end()) continue;
        if (const auto times = arguments->find("times"); times != arguments->end()) {
            TaskTimes& task = trace.tasks.at(arguments->at("task").get<std::size_t>());
            task = {times->at(0), times->at(1), times->at(2), times->at(3), times->at(4), times->at(5)};
        }
        if (const auto issued = arguments->find("issued"); issued != arguments->end()) {
            trace.loads.at(event.at("tid").get<std::size_t>()).push_back(issued->get<double>());
        }
    }
    return trace;
}

}  // namespace

std::string to_chrome(const Trace& trace, const Plan& plan, const Machine& machine) {
    return ChromeFile(trace, plan, machine).write();
}

Trace parse_chrome(std::string_view text, const Plan& plan, std::string_view what) {
    try {
        const nlohmann::json json = nlohmann::json::parse(text);
        if (json.at("otherData").at("plan").get<std::string>() != plan_hash(plan)) {
            throw UserError(fmt::format("{}: a trace of another plan; trace this program again", what));
        }
        return read(json, plan);
    } catch (const nlohmann::json::exception&) {
        throw UserError(fmt::format("{}: not a trace; 'stretto trace' writes them", what));
    } catch (const std::out_of_range&) {
        throw UserError(fmt::format("{}: a trace of another plan; trace this program again", what));
    }
}

}  // namespace stretto
