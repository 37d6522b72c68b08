#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <variant>

#include "graph/builder.h"
#include "support/oracle.h"

namespace stretto {

/// A builder whose inputs are filled with random numbers, and what its results evaluate to.
class BuilderTest : public testing::Test {
protected:
    Tensor random(const Shape& shape, DType dtype = DType::F32, Role role = Role::User) {
        std::uniform_real_distribution<double> uniform(-2, 2);
        Elements elements(static_cast<std::size_t>(volume(shape)));
        for (double& x : elements) x = from_bytes(to_bytes({uniform(engine_)}, dtype).data(), 1, dtype)[0];
        return given(shape, dtype, elements, role);
    }

    Tensor given(const Shape& shape, DType dtype, const Elements& elements, Role role = Role::User) {
        const std::string name = "x" + std::to_string(inputs_.size());
        inputs_[name] = elements;
        return b.input(role, name, dtype, shape);
    }

    /// The elements of a tensor, row-major, as seen through its view.
    Elements elements_of(const Tensor& x) {
        GraphBuilder copy = b;
        copy.output(x, "result");
        const Graph graph = copy.finish();
        return evaluate(graph, inputs_)[graph.outputs.back().value.index()];
    }

    [[nodiscard]] std::size_t nodes() const { return b.graph().nodes.size(); }

    template <class Op>
    const Op& op_of(const Tensor& x) const {
        return std::get<Op>(b.graph()[x.value].op);
    }

    GraphBuilder b;

private:
    std::map<std::string, Elements> inputs_;
    std::mt19937 engine_{7};
};

inline void expect_near(const Elements& got, const Elements& wanted, double tolerance = 1e-5) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << "element " << i;
}

}  // namespace stretto
