#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/pipeline.h"
#include "schedule/text.h"
#include "verify/verify.h"

namespace stretto {

/// What the person who compiles wants to see of the stages.
struct ObserverSettings {
    std::vector<std::string> dump;  ///< stages whose results are written
    std::string directory;          ///< where to: <directory>/<stage>.txt, or the log where it is empty
    bool time = false;              ///< write each stage's time to the log
};

/// From the values of STRETTO_DUMP, STRETTO_DUMP_DIR and STRETTO_TIME, null where unset.
/// Throws UserError naming a stage that does not exist, and those that do.
[[nodiscard]] ObserverSettings observer_settings(const char* dump, const char* directory, const char* time);
[[nodiscard]] ObserverSettings observer_settings_of_environment();

// Results of stages that are not data for another stage; dumps show them as they are read.
[[nodiscard]] std::string to_text(const std::vector<Fault>& faults);  ///< One line or more for each.
[[nodiscard]] std::string to_text(const Emission& emission);          ///< The source.

/// Stands around the stages, so that these neither log nor dump.
class Observer {
public:
    Observer(ObserverSettings settings, std::ostream& log);

    /// Runs `work`, one stage, and returns its result.
    template <class Work>
    auto stage(std::string_view name, Work work) {
        const auto start = std::chrono::steady_clock::now();
        auto result = work();
        record(name, std::chrono::steady_clock::now() - start);
        if (dumps(name)) dump(name, to_text(result));
        return result;
    }

    [[nodiscard]] const std::vector<StageTime>& times() const { return times_; }

private:
    void record(std::string_view stage, std::chrono::duration<double, std::milli> time);
    [[nodiscard]] bool dumps(std::string_view stage) const;
    void dump(std::string_view stage, const std::string& text) const;

    ObserverSettings settings_;
    std::ostream& log_;
    std::vector<StageTime> times_;
};

}  // namespace stretto
