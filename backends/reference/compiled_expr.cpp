#include "backends/reference/compiled_expr.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <type_traits>

#include "backends/reference/convert.h"
#include "backends/reference/lane_ops.h"
#include "base/error.h"

namespace stretto {
namespace {

std::byte* register_at(std::byte* registers, std::int32_t number) { return registers + number * kLanes * 8; }

/// Operations whose results are integers whatever their operands are.
bool yields_integer(Op op) { return op == Op::Not || op == Op::Bits || (op >= Op::Lt && op <= Op::Or); }

/// The domain in which operands of different domains meet.
Domain common(Domain a, Domain b) {
    if (a == b) return a;
    return a == Domain::F64 || b == Domain::F64 ? Domain::F64 : Domain::F32;
}

void round_lanes(void* lanes, DType type, std::int32_t count) {
    if (type == DType::BF16) {
        auto* values = static_cast<float*>(lanes);
        for (std::int32_t i = 0; i < count; ++i) values[i] = rounded_lane(values[i], DType::BF16);
    } else if (type == DType::F16) {
        auto* values = static_cast<float*>(lanes);
        for (std::int32_t i = 0; i < count; ++i) values[i] = rounded_lane(values[i], DType::F16);
    } else if (!is_float(type) && type != DType::I64) {
        auto* values = static_cast<std::int64_t*>(lanes);
        for (std::int32_t i = 0; i < count; ++i) values[i] = rounded_lane(values[i], type);
    }
}

template <class T>
void fill(std::byte* out, T value, std::int32_t lanes) {
    std::fill_n(reinterpret_cast<T*>(out), lanes, value);
}

void fill_constant(std::byte* out, Domain domain, double value, std::int64_t integer, std::int32_t lanes) {
    if (domain == Domain::F32) return fill(out, static_cast<float>(value), lanes);
    if (domain == Domain::F64) return fill(out, value, lanes);
    fill(out, integer, lanes);
}

void fill_index(std::byte* out, std::int64_t dim, const Block& block) {
    auto* lanes = reinterpret_cast<std::int64_t*>(out);
    if (!block.coordinates.empty()) {
        std::copy_n(block.coordinates.data() + dim * kLanes, block.lanes, lanes);
        return;
    }
    const std::int64_t step = dim == block.dim ? 1 : 0;
    for (std::int32_t i = 0; i < block.lanes; ++i) lanes[i] = block.at[dim] + i * step;
}

void select_lanes(Domain domain, std::span<const std::byte* const> in, std::byte* out, std::int32_t lanes) {
    const auto* condition = reinterpret_cast<const std::int64_t*>(in[0]);
    const auto each = [&](auto zero) {
        using T = decltype(zero);
        const auto* then = reinterpret_cast<const T*>(in[1]);
        const auto* otherwise = reinterpret_cast<const T*>(in[2]);
        auto* to = reinterpret_cast<T*>(out);
        for (std::int32_t i = 0; i < lanes; ++i) to[i] = condition[i] != 0 ? then[i] : otherwise[i];
    };
    if (domain == Domain::F32) return each(float{});
    if (domain == Domain::F64) return each(double{});
    each(std::int64_t{});
}

void to_bool(const std::byte* in, Domain domain, std::byte* out, std::int32_t lanes) {
    auto* to = reinterpret_cast<std::int64_t*>(out);
    const auto each = [&](const auto* values) {
        for (std::int32_t i = 0; i < lanes; ++i) to[i] = values[i] != 0 ? 1 : 0;
    };
    if (domain == Domain::F32) return each(reinterpret_cast<const float*>(in));
    if (domain == Domain::F64) return each(reinterpret_cast<const double*>(in));
    each(reinterpret_cast<const std::int64_t*>(in));
}

template <class T>
bool apply(Op op, std::span<const std::byte* const> in, std::byte* out, std::int32_t lanes) {
    const auto* a = reinterpret_cast<const T*>(in[0]);
    if (op == Op::Not) {
        auto* to = reinterpret_cast<std::int64_t*>(out);
        for (std::int32_t i = 0; i < lanes; ++i) to[i] = a[i] == 0 ? 1 : 0;
        return true;
    }
    if constexpr (std::is_same_v<T, float>) {
        if (op == Op::Bits) {
            auto* to = reinterpret_cast<std::int64_t*>(out);
            for (std::int32_t i = 0; i < lanes; ++i) to[i] = std::bit_cast<std::int32_t>(a[i]);
            return true;
        }
    }
    if (in.size() == 1) return apply_unary(op, a, reinterpret_cast<T*>(out), lanes);
    const auto* b = reinterpret_cast<const T*>(in[1]);
    if (yields_integer(op)) return apply_predicate(op, a, b, reinterpret_cast<std::int64_t*>(out), lanes);
    return apply_arithmetic(op, a, b, reinterpret_cast<T*>(out), lanes);
}

}  // namespace

std::int32_t CompiledExpr::converted(std::int32_t node, Domain domain) {
    const std::int32_t from = register_of_[node];
    if (domains_[from] == domain) return from;
    Step step;
    step.op = Op::Cast;
    step.domain = domains_[from];
    step.type = domain == Domain::F32 ? DType::F32 : domain == Domain::F64 ? DType::F64 : DType::I64;
    step.out = static_cast<std::int32_t>(domains_.size());
    step.in = {from};
    domains_.push_back(domain);
    steps_.push_back(std::move(step));
    return steps_.back().out;
}

CompiledExpr::CompiledExpr(const Expr& expr) : type_(expr.type()) {
    for (const Access& access : expr.accesses) accesses_.emplace_back(access);
    for (const ExprNode& node : expr.nodes) {
        Step step;
        step.op = node.op;
        step.type = node.type;
        step.integer = node.integer;
        step.value = node.value;
        step.domain = domain_of(node.type);
        if (node.op == Op::Cast) {
            step.domain = domains_[register_of_[node.args[0]]];
        } else if (yields_integer(node.op)) {
            step.domain = domains_[register_of_[node.args[0]]];
            for (std::int32_t arg : node.args) step.domain = common(step.domain, domains_[register_of_[arg]]);
        }
        for (std::size_t i = 0; i < node.args.size(); ++i) {
            const bool integer = node.op == Op::Load || (node.op == Op::Select && i == 0);
            step.in.push_back(converted(node.args[i], integer ? Domain::I64 : step.domain));
        }
        if (node.op == Op::Const && is_narrow_float(node.type)) {
            step.value = rounded_lane(static_cast<float>(node.value), node.type);
        }
        step.out = static_cast<std::int32_t>(domains_.size());
        domains_.push_back(domain_of(node.type));
        register_of_.push_back(step.out);
        steps_.push_back(std::move(step));
    }
}

void CompiledExpr::load(const Step& step, const Block& block, Buffers buffers, Workspace& workspace,
                        std::byte* registers) const {
    std::array<const std::int64_t*, 8> indirect{};
    ensure(step.in.size() <= indirect.size(), "a load has more than 8 indirect coordinates");
    for (std::size_t i = 0; i < step.in.size(); ++i) {
        indirect[i] = reinterpret_cast<const std::int64_t*>(register_at(registers, step.in[i]));
    }
    accesses_[step.integer].read(block, indirect, buffers, workspace, register_at(registers, step.out),
                                 step.domain);
}

bool CompiledExpr::leaf(const Step& step, const Block& block, Buffers buffers, Workspace& workspace,
                        std::byte* registers) const {
    std::byte* out = register_at(registers, step.out);
    switch (step.op) {
        case Op::Const:
            fill_constant(out, step.domain, step.value, step.integer, block.lanes);
            return true;
        case Op::Index:
            fill_index(out, step.integer, block);
            return true;
        case Op::Load:
            load(step, block, buffers, workspace, registers);
            return true;
        case Op::Acc:
            convert_lanes(block.accumulators[step.integer], block.accumulator_domain, out, step.domain,
                          block.lanes);
            return true;
        case Op::Stat:
            fill_constant(out, step.domain, block.stats[step.integer], 0, block.lanes);
            return true;
        default:
            return false;
    }
}

void CompiledExpr::inner(const Step& step, std::int32_t lanes, std::byte* registers) const {
    std::byte* out = register_at(registers, step.out);
    std::array<const std::byte*, 3> in{};
    for (std::size_t i = 0; i < step.in.size(); ++i) in[i] = register_at(registers, step.in[i]);
    const std::span<const std::byte* const> args(in.data(), step.in.size());
    if (step.op == Op::Cast && step.type == DType::Bool) return to_bool(in[0], step.domain, out, lanes);
    if (step.op == Op::Cast) return convert_lanes(in[0], step.domain, out, domain_of(step.type), lanes);
    if (step.op == Op::Select) return select_lanes(step.domain, args, out, lanes);
    const bool known = step.domain == Domain::F32   ? apply<float>(step.op, args, out, lanes)
                       : step.domain == Domain::F64 ? apply<double>(step.op, args, out, lanes)
                                                    : apply<std::int64_t>(step.op, args, out, lanes);
    if (!known) throw InternalError("no operation '" + std::string(info(step.op).name) + "' on integers");
}

const void* CompiledExpr::run(const Block& block, Buffers buffers, Workspace& workspace) const {
    std::byte* registers = workspace.registers(domains_.size());
    for (const Step& step : steps_) {
        if (!leaf(step, block, buffers, workspace, registers)) inner(step, block.lanes, registers);
        round_lanes(register_at(registers, step.out), step.type, block.lanes);
    }
    return register_at(registers, register_of_.back());
}

const std::int64_t* CompiledExpr::integers(std::int32_t node, Workspace& workspace) const {
    ensure(domains_[register_of_[node]] == Domain::I64, "an indirect coordinate is not an integer");
    return reinterpret_cast<const std::int64_t*>(
        register_at(workspace.registers(domains_.size()), register_of_[node]));
}

double CompiledExpr::scalar(const Block& block, Buffers buffers, Workspace& workspace) const {
    double value = 0;
    convert_lanes(run(block, buffers, workspace), domain(), &value, Domain::F64, 1);
    return value;
}

}  // namespace stretto
