#include "fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "fuse/build.h"
#include "fuse/crowding.h"
#include "fuse/decide.h"
#include "fuse/exchange.h"
#include "fuse/expand.h"
#include "fuse/fresh.h"
#include "fuse/join.h"
#include "fuse/join_pieces.h"
#include "fuse/join_products.h"
#include "fuse/join_reduces.h"
#include "fuse/join_scored.h"
#include "fuse/join_softmax.h"
#include "fuse/layout.h"
#include "fuse/one_pass.h"
#include "fuse/order.h"
#include "fuse/own_statistics.h"
#include "fuse/pad_rows.h"
#include "fuse/prepare.h"
#include "fuse/product_tile.h"
#include "fuse/shift_parts.h"
#include "fuse/widen.h"

namespace stretto {
namespace {

BufferRole role_of(const Input& input) {
    switch (input.role) {
        case Role::Parameter:
            return BufferRole::Parameter;
        case Role::State:
            return BufferRole::State;
        case Role::Constant:
            return BufferRole::Constant;
        case Role::User:
            return BufferRole::Input;
    }
    throw InternalError("an input has an unknown role");
}

/// Gives a buffer to every input and to every value that a region writes. An Update's value lives in its state's.
class BufferTable {
public:
    BufferTable(const Graph& graph, const std::vector<DraftRegion>& drafts)
        : graph_(graph), buffer_(graph.nodes.size()) {
        std::vector<bool> written(graph.nodes.size(), false);
        for (const DraftRegion& draft : drafts) {
            for (const Use& use : uses(draft.region)) {
                if (use.write) written[static_cast<std::size_t>(use.access->source)] = true;
            }
        }
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
            const Node& node = graph.nodes[i];
            if (const auto* update = std::get_if<Update>(&node.op)) {
                buffer_[i] = buffer_[update->state.index()];
            } else if (const auto* input = std::get_if<Input>(&node.op)) {
                add(i, input->name, role_of(*input));
            } else if (written[i]) {
                const Output* output = output_of(ValueId(static_cast<std::int64_t>(i)));
                const std::string& place = node.source.module.empty() ? node.source.op : node.source.module;
                if (output != nullptr) {
                    add(i, output->name, BufferRole::Output);
                } else {
                    add(i, fmt::format("{}#{}", place, i), BufferRole::Arena);
                }
            }
        }
    }

    [[nodiscard]] std::int32_t of(std::int32_t value) const {
        const BufferId id = buffer_.at(static_cast<std::size_t>(value));
        ensure(id.valid(), "a region reads a value that nothing stores");
        return id.value;
    }
    [[nodiscard]] std::vector<Buffer> take() { return std::move(buffers_); }

private:
    void add(std::size_t value, std::string name, BufferRole role) {
        Buffer buffer{std::move(name), graph_.nodes[value].type.dtype, graph_.nodes[value].type.shape, role,
                      nullptr};
        for (const auto& [id, bytes] : graph_.constants) {
            if (id.index() == value) buffer.bytes = bytes;
        }
        buffers_.push_back(std::move(buffer));
        buffer_[value] = BufferId(static_cast<std::int64_t>(buffers_.size()) - 1);
    }

    [[nodiscard]] const Output* output_of(ValueId value) const {
        const auto found = std::find_if(
            graph_.outputs.begin(), graph_.outputs.end(),
            [&](const Output& output) { return output.value == value && !output.state_input.valid(); });
        return found != graph_.outputs.end() ? &*found : nullptr;
    }

    const Graph& graph_;
    std::vector<BufferId> buffer_;
    std::vector<Buffer> buffers_;
};

/// Notes what the updates in `problems` need.
void take_care(const Prepared& prepared, const std::vector<UpdateProblem>& problems, UpdateCare& care) {
    std::map<ValueId, std::size_t> keys;
    std::size_t number = 0;
    for (std::size_t i = 0; i < prepared.graph.nodes.size(); ++i) {
        if (!std::holds_alternative<Update>(prepared.graph.nodes[i].op)) continue;
        keys[ValueId(static_cast<std::int64_t>(i))] = prepared.update_keys[number++];
    }
    for (const UpdateProblem& problem : problems) {
        auto& handled = problem.separate ? care.separated : care.copied;
        ensure(handled.insert(keys.at(problem.update)).second, "an update cannot be ordered");
    }
}

/// The new elements of separated updates are stored before the update reads them.
RuledOut keep_separate(const Prepared& prepared, const std::set<std::size_t>& separated) {
    RuledOut ruled_out;
    ruled_out.inlining = prepared.stored;
    std::size_t number = 0;
    for (const Node& node : prepared.graph.nodes) {
        const auto* update = std::get_if<Update>(&node.op);
        if (update == nullptr || separated.count(prepared.update_keys[number++]) == 0) continue;
        ruled_out.inlining.insert(ValueId(update->expr.accesses.back().source));
    }
    return ruled_out;
}

/// What decides beside the graph.
struct Setting {
    const Machine& machine;
    Numerics numerics;
    const PlanOptions& options;
};

/// Regions in program order whose decisions can all be carried out: what turns out not to work is ruled out, and
/// decided again. Empty, with `*problems` filled, where updates cannot be done as `graph` has them.
std::vector<DraftRegion> settle(const Graph& graph, const Setting& setting, RuledOut ruled_out,
                                std::vector<UpdateProblem>* problems) {
    const auto& [machine, numerics, options] = setting;
    for (;;) {
        try {
            const Decisions decisions = decide(graph, machine, ruled_out, options);
            std::vector<DraftRegion> drafts = build_regions(graph, decisions, machine, numerics);
            const std::vector<ValueId> crowded = crowded_values(graph, decisions, drafts);
            if (!crowded.empty()) {
                ruled_out.inlining.insert(crowded.begin(), crowded.end());
                continue;
            }
            const auto order = program_order(graph, drafts, problems);
            if (!order) return {};
            std::vector<DraftRegion> ordered;
            for (std::size_t r : *order) ordered.push_back(std::move(drafts[r]));
            return ordered;
        } catch (const Inexpressible& failure) {
            ensure(ruled_out.inlining.insert(ValueId(failure.source)).second, "a stored value was inlined");
        } catch (const NotAnEpilogue& failure) {
            ensure(ruled_out.epilogue.insert(failure.value).second,
                   "a value joined an epilogue against the rules");
        }
    }
}

}  // namespace

Numerics numerics_named(std::string_view name) {
    if (name == "fused") return Numerics::Fused;
    if (name == "exact") return Numerics::Exact;
    throw UserError(fmt::format("unknown numerics '{}'; known: fused, exact", name));
}

RegionGraph fuse(const Graph& graph, const Machine& machine, Numerics numerics, const PlanOptions& options) {
    const Graph direct = with_own_statistics(
        with_fresh_rows(numerics == Numerics::Fused ? in_one_pass(graph, machine) : graph));
    UpdateCare care;
    for (;;) {
        const Prepared prepared = prepare(direct, machine, care, options);
        check(prepared.graph);
        std::vector<UpdateProblem> problems;
        const std::vector<DraftRegion> drafts = settle(prepared.graph, {machine, numerics, options},
                                                       keep_separate(prepared, care.separated), &problems);
        if (!problems.empty()) {
            take_care(prepared, problems, care);
            continue;
        }
        BufferTable buffers(prepared.graph, drafts);
        RegionGraph result;
        for (const DraftRegion& draft : drafts) {
            result.regions.push_back(draft.region);
            change_accesses(result.regions.back(),
                            [&](Access& access) { access.source = buffers.of(access.source); });
        }
        result.buffers = buffers.take();
        join_maps(result);
        if (numerics == Numerics::Fused) {
            exchange_sums(result);
            shift_parts(result);
        }
        join_softmax(result);
        join_scored(result, machine);
        lay_out_rows(result);
        join_products(result);
        store_pieces_joined(result);
        cut_products(result, machine, options);
        if (numerics == Numerics::Fused) widen_intermediates(result);
        pad_rows(result);
        join_reduces(result, machine);
        return result;
    }
}

}  // namespace stretto
