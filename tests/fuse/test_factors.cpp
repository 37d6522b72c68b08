#include <gtest/gtest.h>

#include "fuse/factors.h"

namespace stretto {
namespace {

class FactorsOf : public testing::Test {
protected:
    Expr e;

    std::int32_t acc(int number) { return e.acc(number); }
    std::int32_t number(double value) { return e.constant(value, DType::F32); }
    std::int32_t seen() { return e.apply(Op::Le, DType::Bool, {e.index(0), e.index(1)}); }
    std::int32_t where(std::int32_t condition, std::int32_t then, std::int32_t otherwise) {
        return e.apply(Op::Select, DType::F32, {condition, then, otherwise});
    }
    [[nodiscard]] Expr part(std::int32_t node) const { return extracted(e, node); }
};

TEST_F(FactorsOf, AProductAreThoseOfBothSides) {
    const auto sum = e.apply(Op::Add, {acc(0), acc(1)});
    e.apply(Op::Mul, {e.apply(Op::Mul, {sum, number(3)}), e.apply(Op::Neg, {acc(0)})});
    const Factors found = factors_of(e);
    EXPECT_EQ(found.constant, -3);
    EXPECT_EQ(found.others, (std::vector<Expr>{part(sum), part(acc(0))}));
}

TEST_F(FactorsOf, AQuotientEndInAReciprocal) {
    const auto divisor = acc(1);
    e.apply(Op::Div, {e.apply(Op::Div, {acc(0), number(4)}), divisor});
    const Factors found = factors_of(e);
    EXPECT_EQ(found.constant, 0.25);
    Expr inverse = part(divisor);
    inverse.apply(Op::Recip, {inverse.root()});
    EXPECT_EQ(found.others, (std::vector<Expr>{part(acc(0)), inverse}));
}

TEST_F(FactorsOf, ASelectionOrZeroHoldItsConditionOnce) {
    const auto inner = where(seen(), acc(0), number(0));
    e.apply(Op::Mul, {inner, where(seen(), acc(1), number(0))});
    EXPECT_EQ(factors_of(e).others, (std::vector<Expr>{part(seen()), part(acc(0)), part(acc(1))}));
}

TEST_F(FactorsOf, ZeroOrASelectionHoldTheOppositeOfItsCondition) {
    where(seen(), number(0), acc(0));
    Expr opposite = part(seen());
    opposite.apply(Op::Not, {opposite.root()});
    EXPECT_EQ(factors_of(e).others, (std::vector<Expr>{opposite, part(acc(0))}));
}

TEST_F(FactorsOf, ARoundedProductAreThoseOfTheProduct) {
    e.cast(e.apply(Op::Mul, {acc(0), acc(1)}), DType::BF16);
    EXPECT_EQ(factors_of(e).others, (std::vector<Expr>{part(acc(0)), part(acc(1))}));
}

TEST_F(FactorsOf, ASelectionOfTwoValuesIsItself) {
    const auto root = where(seen(), acc(0), acc(1));
    EXPECT_EQ(factors_of(e).others, std::vector<Expr>{part(root)});
}

TEST(TakeOut, TakesEachFactorOnce) {
    Expr x, y;
    x.acc(0);
    y.acc(1);
    std::vector<Expr> from{x, y, x};
    EXPECT_TRUE(take_out(from, {x, y}));
    EXPECT_EQ(from, std::vector<Expr>{x});
    EXPECT_FALSE(take_out(from, {y}));
}

}  // namespace
}  // namespace stretto
