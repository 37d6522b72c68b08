#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "graph/builder.h"
#include "support/oracle.h"
#include "support/stable_order.h"

namespace stretto {
namespace {

struct LongOrder {
    DType dtype;
    Shape shape;
    int dim;
    bool descending;
    int values;  ///< few of them make equal keys
};

class LongOrders : public testing::TestWithParam<LongOrder> {};

TEST_P(LongOrders, AreThoseOfAStableSort) {
    const LongOrder& c = GetParam();
    const auto dim = static_cast<std::size_t>(c.dim);
    std::mt19937 engine(5);
    std::uniform_int_distribution<int> uniform(-c.values / 2, c.values / 2);
    Elements elements(static_cast<std::size_t>(volume(c.shape)));
    for (double& x : elements) {
        x = uniform(engine);
        if (c.dtype == DType::Bool) x = x > 0 ? 1 : 0;
        if (is_float(c.dtype) && x == c.values / 2) x = std::nan("");
        if (is_float(c.dtype) && x == 1 - c.values / 2) x = -std::numeric_limits<double>::infinity();
        if (is_float(c.dtype) && x == 0 && uniform(engine) < 0) x = -0.0;
    }
    GraphBuilder b;
    b.output(b.argsort(b.input(Role::User, "x", c.dtype, c.shape), c.dim, c.descending), "order");
    const Graph graph = b.finish();
    const Elements order = evaluate(graph, {{"x", elements}})[graph.outputs.front().value.index()];

    const std::int64_t count = c.shape[dim];
    const std::int64_t inner = dim + 1 < c.shape.size() ? c.shape[dim + 1] : 1;
    Elements row(static_cast<std::size_t>(count));
    for (std::int64_t r = 0; r < volume(c.shape) / count; ++r) {
        const auto at = [&](std::int64_t i) {
            return static_cast<std::size_t>(r / inner * count * inner + i * inner + r % inner);
        };
        for (std::int64_t i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = elements[at(i)];
        const Elements wanted = stable_order(row, c.descending);
        for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(order[at(i)], wanted[static_cast<std::size_t>(i)]) << "row " << r << ", position " << i;
    }
}

// Whole blocks and parts of one, few and many values, rows in either dimension.
INSTANTIATE_TEST_SUITE_P(Keys, LongOrders,
                         testing::Values(LongOrder{DType::I64, {4096}, 0, false, 16},
                                         LongOrder{DType::I32, {2049}, 0, true, 40000},
                                         LongOrder{DType::BF16, {2, 2100}, 1, true, 60},
                                         LongOrder{DType::F32, {2060, 2}, 0, false, 40},
                                         LongOrder{DType::Bool, {2304}, 0, true, 2}));

}  // namespace
}  // namespace stretto
