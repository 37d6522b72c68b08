#pragma once

#include <functional>
#include <memory>

#include "import/import.h"
#include "runtime/session.h"
#include "tune/timing.h"
#include "tune/tune.h"

namespace stretto {

/// Gives a session its inputs.
using GiveInputs = std::function<void(Session&)>;

/// What is wrong with a program's outputs and states after one launch from the first state, beside those of another plan
/// of the same program; empty where they agree. Integers must be equal. Floats may differ by what sums in another order
/// bring: four roundings of the narrowest type in the program, relative to the tensor's largest element.
/// Requires: both sessions have their inputs.
[[nodiscard]] std::string difference(Session& session, Session& reference);

/// Runs plans of `model` on a backend beside the untuned one: compares their results once, then times them in turns,
/// each launch from the first state.
[[nodiscard]] Contest contest(const Imported& model, const Compiled& untuned, Backend backend,
                              GiveInputs give_inputs, const TimingSettings& settings);

}  // namespace stretto
