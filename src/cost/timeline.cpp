#include "cost/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "cost/simulate.h"

namespace stretto {
namespace {

struct Kind {
    std::string_view name;
    std::string_view color;
};

/// By index of RegionBody.
constexpr std::array<Kind, 4> kKinds{
    {{"map", "#8c8c8c"}, {"reduce", "#c9a227"}, {"matmul", "#2f6db5"}, {"attention", "#c0504d"}}};

constexpr double kWidth = 1000;
constexpr double kLeft = 60;
constexpr double kTop = 28;
constexpr double kBottom = 34;
constexpr double kMostHeight = 420;
constexpr double kLineHeight = 24;
constexpr int kMarks = 6;

class Timeline {
public:
    Timeline(const Plan& plan, const Simulation& simulation, Window window)
        : plan_(plan), simulation_(simulation), window_(window) {
        line_ = std::min(kLineHeight,
                         kMostHeight / static_cast<double>(std::max<std::size_t>(plan.workers.size(), 1)));
    }

    std::string run() {
        const double lines = line_ * static_cast<double>(plan_.workers.size());
        out_ = fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            kLeft + kWidth + 10, kTop + lines + kBottom);
        legend();
        for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
            for (const Step& step : plan_.workers[w].queue) bar(w, step.task);
        }
        axis(kTop + lines);
        out_ += "</svg>\n";
        return std::move(out_);
    }

private:
    [[nodiscard]] double x(double us) const {
        return kLeft + (us - window_.begin) / (window_.end - window_.begin) * kWidth;
    }

    void legend() {
        double at = kLeft;
        for (const Kind& kind : kKinds) {
            out_ += fmt::format(
                "<rect x=\"{:.0f}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{}\"/>"
                "<text x=\"{:.0f}\" y=\"17\">{}</text>\n",
                at, kind.color, at + 14, kind.name);
            at += 90;
        }
        out_ += fmt::format("<text x=\"2\" y=\"{:.0f}\">workers</text>\n", kTop + 12);
    }

    void bar(std::size_t worker, TaskId task) {
        const Simulation::Span& span = simulation_.tasks[task.index()];
        const double begin = std::max(span.start, window_.begin);
        const double end = std::min(span.end, window_.end);
        if (begin >= end) return;
        const Region& region = plan_.graph.regions[plan_.graph[task].region];
        out_ +=
            fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
                        x(begin), kTop + line_ * static_cast<double>(worker),
                        std::max(x(end) - x(begin), 0.2), line_ * 0.85, kKinds.at(region.body.index()).color);
    }

    void axis(double y) {
        for (int i = 0; i <= kMarks; ++i) {
            const double us = window_.begin + (window_.end - window_.begin) * i / kMarks;
            out_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:.1f} us</text>\n",
                                std::min(x(us), kLeft + kWidth - 20), y + 18, us);
        }
    }

    const Plan& plan_;
    const Simulation& simulation_;
    Window window_;
    double line_ = 0;
    std::string out_;
};

}  // namespace

std::string timeline_svg(const Plan& plan, const Machine& machine, std::optional<Window> window) {
    const Simulation simulation = simulate(plan, machine);
    const Window shown = window.value_or(Window{0, simulation.total});
    if (!(shown.begin >= 0 && shown.begin < shown.end && shown.begin < simulation.total)) {
        throw UserError(fmt::format("no such window: {} to {} us; the launch is predicted to take {:.1f} us",
                                    shown.begin, shown.end, simulation.total));
    }
    return Timeline(plan, simulation, shown).run();
}

}  // namespace stretto
