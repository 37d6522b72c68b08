#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

/// Choices that the machine's costs leave open, or may get wrong: what `stretto tune` varies. The values here are those of
/// a plan that was not tuned.
struct PlanOptions {
    /// Weights run ahead through the ring; else the tasks read them, without tensor cores.
    bool stream = true;
    /// Small activations travel as epoch-tagged words; else all by counters.
    bool words = true;
    double words_up_to = 1;      ///< words are chosen where polling them costs less than so many counters
    double recompute_up_to = 1;  ///< values are computed again where that costs less than so many hand-offs
    std::int32_t workers = 0;    ///< that the plan uses; 0: all of the machine's
    std::int32_t attention_splits = 0;  ///< parts of attention's context; 0: as many as take the least time
    std::int32_t product_parts = 32;    ///< parts of k, at most, of a product that does not stream
    std::int32_t task_panels = 1;       ///< panels of weights, at least, of a product's task
    /// Strips in which the results of a long product, such as logits, are computed again and again instead of being stored; 1:
    /// they are stored, 0: as many as keep a strip small.
    std::int32_t product_strips = 1;
    bool operator==(const PlanOptions&) const = default;
};

/// What differs from a plan that was not tuned, e.g. "words=off,workers=128"; empty where nothing does.
[[nodiscard]] std::string to_text(const PlanOptions& options);

/// Reads that form. Throws UserError naming what is unknown or wrong, and what there is.
[[nodiscard]] PlanOptions parse_plan_options(std::string_view text);

/// `options` without the parts of the compiler named "stream" or "words", to measure what these are worth. Throws
/// UserError on any other name.
[[nodiscard]] PlanOptions without(const std::vector<std::string>& names, PlanOptions options = {});

}  // namespace stretto
