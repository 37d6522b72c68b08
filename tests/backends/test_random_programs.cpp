#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "backends/backends.h"
#include "base/error.h"
#include "fuse/fuse.h"
#include "fuse/pad_rows.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "simplify/simplify.h"
#include "verify/verify.h"

namespace stretto {
namespace {

constexpr int kPrograms = 1000;

/// Grows a program by random tensor operations whose values stay within a few units.
class RandomProgram {
public:
    explicit RandomProgram(unsigned seed) : random_(seed) {
        const Shape shape{below(3) + 1, 2 * (below(4) + 1), 4 * (below(5) + 1)};
        pool_.push_back(builder_.input(Role::User, "x", DType::F32, shape));
        pool_.push_back(builder_.input(Role::User, "y", DType::F32, shape));
        state_ = builder_.input(Role::State, "state", DType::F32, shape);
        next_ = state_;
        pool_.push_back(state_);
    }

    Graph run() {
        const std::int64_t count = 4 + below(14);
        for (std::int64_t i = 0; i < count; ++i) grow();
        builder_.output(pool_.back(), "last");
        builder_.output(any(), "another");
        builder_.update_state(state_, next_, "state");
        return builder_.finish();
    }

private:
    std::int64_t below(std::int64_t limit) {
        return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
    }
    /// Newer values more often, so that programs get deep.
    const Tensor& any() {
        const auto size = static_cast<std::int64_t>(pool_.size());
        return pool_[static_cast<std::size_t>(size - 1 - std::min(below(size), below(size)))];
    }
    Tensor number(double value) { return builder_.full({1}, value, DType::F32); }
    Tensor scaled(const Tensor& x, double by) { return builder_.apply(Op::Mul, {x, number(by)}, DType::F32); }
    int any_dim(const Tensor& x) { return static_cast<int>(below(static_cast<std::int64_t>(x.rank()))); }

    void grow() {
        const Tensor x = any();
        switch (below(12)) {
            case 0:
                return add(builder_.apply(Op::Tanh, {x}, DType::F32));
            case 1:
                return add(builder_.apply(Op::Sub, {x, scaled(x, 0.5)}, DType::F32));
            case 2:
                return add(builder_.transpose(x, -1, -2));
            case 3:
                return add(flattened(x));
            case 4:
                return add(cut(x));
            case 5:
                return add(builder_.concat({x, builder_.apply(Op::Neg, {x}, DType::F32)}, any_dim(x)));
            case 6:
                return add(normalized_rows(x));
            case 7:
                return add(product(x));
            case 8:
                return add(builder_.softmax(x, any_dim(x), DType::F32));
            case 9:
                return combine(x);
            case 10:
                return centred(x);
            default:
                return change_state();
        }
    }

    void add(const Tensor& x) {
        if (volume(x.shape()) <= 4000) pool_.push_back(x);
    }

    Tensor flattened(const Tensor& x) {
        return builder_.reshape(x, {-1, x.shape().back() % 2 == 0 ? 2 : x.shape().back()});
    }

    Tensor cut(const Tensor& x) {
        const int dim = any_dim(x);
        const std::int64_t extent = x.shape()[static_cast<std::size_t>(dim)];
        const std::int64_t begin = below(extent);
        return builder_.slice(x, dim, begin, begin + 1 + below(extent - begin), 1 + below(2));
    }

    Tensor normalized_rows(const Tensor& x) {
        const Tensor squares = builder_.apply(Op::Mul, {x, x}, DType::F32);
        const Tensor sum = builder_.reduce(ReduceOp::Sum, squares, {-1}, true, DType::F32);
        const Tensor mean = scaled(sum, 1.0 / static_cast<double>(x.shape().back()));
        const Tensor scale =
            builder_.apply(Op::Rsqrt, {builder_.apply(Op::Add, {mean, number(1)}, DType::F32)}, DType::F32);
        return builder_.apply(Op::Mul, {x, scale}, DType::F32);
    }

    Tensor product(const Tensor& x) {
        const std::int64_t rows = 4 * (1 + below(6));
        const Shape shape{rows, x.shape().back()};
        const Tensor weight =
            builder_.input(Role::Parameter, "weight" + std::to_string(weights_++), DType::F32, shape);
        const Tensor y = builder_.linear(x.rank() >= 2 ? x : builder_.unsqueeze(x, 0), weight, std::nullopt);
        return scaled(y, 1 / std::sqrt(static_cast<double>(shape[1])));
    }

    /// With another value of the same shape, if there is one.
    void combine(const Tensor& x) {
        for (std::size_t i = pool_.size(); i-- > 0;) {
            if (pool_[i].shape() != x.shape() || below(3) == 0) continue;
            const Op op = std::array{Op::Add, Op::Mul, Op::Max}[static_cast<std::size_t>(below(3))];
            return add(builder_.apply(op, {scaled(x, 0.5), pool_[i]}, DType::F32));
        }
    }

    void centred(const Tensor& x) {
        const int dim = any_dim(x);
        const ReduceOp op = below(2) == 0 ? ReduceOp::Max : ReduceOp::Min;
        const Tensor edge = builder_.reduce(op, x, {dim}, true, DType::F32);
        add(builder_.apply(Op::Sub, {x, edge}, DType::F32));
        add(edge);
    }

    void change_state() {
        const std::int64_t rows = state_.shape()[1];
        const std::int64_t begin = below(rows);
        const std::int64_t end = begin + 1 + below(rows - begin);
        const Tensor part = builder_.slice(next_, 1, rows - end, rows - begin);
        const Tensor values = builder_.apply(Op::Tanh, {part}, DType::F32);
        next_ = builder_.slice_scatter(next_, values, 1, begin, end);
        add(next_);
    }

    std::mt19937 random_;
    GraphBuilder builder_;
    std::vector<Tensor> pool_;
    Tensor state_;
    Tensor next_;
    int weights_ = 0;
};

/// The backends that need no compiler, one after the other.
const Backend& backend_for(unsigned seed) {
    static const std::vector<Backend> kAll = [] {
        std::vector<Backend> found = available_backends();
        std::erase_if(found, [](const Backend& b) { return b.name.starts_with("cuda"); });
        return found;
    }();
    return kAll[seed % kAll.size()];
}

/// Compiles, proves and runs one program, some with padded rows however short; compares every output.
void run_and_compare(const Graph& graph, const Backend& backend, unsigned seed) {
    RegionGraph regions = fuse(simplify(graph), backend.machine);
    if (seed / 2 % 2 == 1) pad_rows(regions, 2);
    const Plan plan = planned(regions, backend.machine);
    const std::vector<Fault> faults = verify(plan);
    ASSERT_TRUE(faults.empty()) << faults[0].message;

    BufferMemory memory(regions, seed);
    const std::map<std::string, Elements> inputs = memory.elements_by_name();
    const std::vector<Elements> values = evaluate(graph, inputs);
    backend.run(plan, memory, 1);
    for (const Output& output : graph.outputs) {
        const Elements got = memory.elements(buffer_named(regions, output.name));
        // F32 keeps 24 bits; a dozen operations, some of which (max, softmax) pass errors on enlarged.
        ASSERT_LT(relative_distance(got, values[output.value.index()], 1e-3), 1e-4) << output.name;
    }
}

TEST(RandomPrograms, RunAsThePlainEvaluatorDoes) {
    for (unsigned seed = 0; seed < kPrograms && !HasFailure(); ++seed) {
        const Backend& backend = backend_for(seed);
        const Graph graph = RandomProgram(seed).run();
        SCOPED_TRACE("seed " + std::to_string(seed) + " on " + backend.name + "\n" + to_text(graph));
        try {
            run_and_compare(graph, backend, seed);
        } catch (const Error& error) {
            ADD_FAILURE() << error.what();
        }
    }
}

}  // namespace
}  // namespace stretto
