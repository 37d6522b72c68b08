#include "profile/trace.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "bindings.h"
#include "profile/chrome.h"
#include "profile/summary.h"
#include "python_trace.h"

namespace stretto::python {
namespace {

struct PythonTask {
    std::int64_t task = 0;
    std::string region;
    std::size_t worker = 0;
    TaskTimes times;
};

/// By worker, in the order in which it runs them.
std::vector<PythonTask> tasks_of(const PythonTrace& self) {
    std::vector<PythonTask> tasks;
    const Plan& plan = self.program.plan;
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
        for (const Step& step : plan.workers[w].queue) {
            const std::string& region = plan.graph.regions[plan.graph[step.task].region].name;
            tasks.push_back({step.task.value, region, w, self.trace.tasks[step.task.index()]});
        }
    }
    return tasks;
}

std::string summary_of(const PythonTrace& self) {
    const nb::gil_scoped_release unlocked;
    return summary(self.program.plan, self.trace, self.program.machine);
}

std::string hops_of(const PythonTrace& self) {
    const nb::gil_scoped_release unlocked;
    return hop_report(self.program.plan, self.trace, self.program.machine);
}

void save(const PythonTrace& self, const std::string& path) {
    const nb::gil_scoped_release unlocked;
    write_file(path, to_chrome(self.trace, self.program.plan, self.program.machine));
}

}  // namespace

void bind_trace(nb::module_& m) {
    const auto time = [](double TaskTimes::*moment) {
        return [moment](const PythonTask& self) { return self.times.*moment; };
    };
    nb::class_<PythonTask>(m, "TaskTimes", "When one task did what, in microseconds.")
        .def_ro("task", &PythonTask::task)
        .def_ro("region", &PythonTask::region)
        .def_ro("worker", &PythonTask::worker)
        .def_prop_ro("begun", time(&TaskTimes::begun))
        .def_prop_ro("ready", time(&TaskTimes::ready))
        .def_prop_ro("staged", time(&TaskTimes::staged))
        .def_prop_ro("computed", time(&TaskTimes::computed))
        .def_prop_ro("published", time(&TaskTimes::published))
        .def_prop_ro("stalled", time(&TaskTimes::stalled));

    nb::class_<PythonTrace>(m, "Trace", "What one launch did and when. Times in microseconds.")
        .def_prop_ro("backend", [](const PythonTrace& self) { return self.trace.backend; })
        .def_prop_ro("total", [](const PythonTrace& self) { return self.trace.total; })
        .def_prop_ro("tick", [](const PythonTrace& self) { return self.trace.tick; })
        .def_prop_ro("tasks", &tasks_of)
        .def("summary", &summary_of)
        .def("hops", &hops_of)
        .def("save", &save, nb::arg("path"))
        .def_prop_ro("loads", [](const PythonTrace& self) { return self.trace.loads; });
}

}  // namespace stretto::python
