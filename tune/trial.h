#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/plan_options.h"

namespace stretto {

/// Times of a plan and of the untuned one, measured in turns.
struct Comparison {
    double untuned_us = 0;
    double measured_us = 0;
    std::string fault;  ///< why the plan is of no use, e.g. that its results differ; empty where it is

    [[nodiscard]] double ratio() const { return measured_us / untuned_us; }
    bool operator==(const Comparison&) const = default;
};

/// One way to plan a program, and what is known of it.
struct Trial {
    PlanOptions options;
    double predicted_us = 0;
    std::optional<Comparison> comparison;  ///< once it was run
};

/// What was measured of one program, in a file, so that a search that was broken off goes on where it stopped. The file
/// is written whole after each measurement; one that cannot be read counts as empty.
class TrialLog {
public:
    /// Without a path, what was measured is kept in memory only.
    explicit TrialLog(std::string path);

    [[nodiscard]] std::optional<Comparison> find(const PlanOptions& options) const;
    void add(const PlanOptions& options, const Comparison& comparison);
    [[nodiscard]] std::size_t size() const { return known_.size(); }

private:
    std::string path_;
    std::map<std::string, Comparison> known_;  ///< by text of the options
};

}  // namespace stretto
