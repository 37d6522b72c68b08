#pragma once

#include <string>
#include <vector>

namespace stretto {

/// When one task of a launch did what. Microseconds on the trace's clock;
/// begun <= ready <= staged <= computed <= published. The worker's next task begins after `computed`: its waits and the
/// sending of signals overlap.
struct TaskTimes {
    double begun = 0;      ///< its worker has its record and nothing else to do
    double ready = 0;      ///< its waits hold
    double staged = 0;     ///< its inputs are in shared memory; `ready` for kinds that stage nothing
    double computed = 0;   ///< all its stores are made
    double published = 0;  ///< its signals are sent
    double stalled = 0;    ///< part of staged to computed: one of its warps waited for weights to arrive
    bool operator==(const TaskTimes&) const = default;
};

/// What one launch did and when, as measured. Times in microseconds; 0 is the first task's begin or load.
struct Trace {
    std::string backend;  ///< that ran it
    /// How finely the clock ticks that places workers beside each other. Times of one worker are finer than that.
    double tick = 0;
    std::vector<TaskTimes> tasks;            ///< by task
    std::vector<std::vector<double>> loads;  ///< by worker, by load of its stream: when it was issued
    double total = 0;                        ///< the last `published`
    bool operator==(const Trace&) const = default;
};

}  // namespace stretto
