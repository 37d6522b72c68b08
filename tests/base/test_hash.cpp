#include <gtest/gtest.h>

#include "base/hash.h"

namespace stretto {
namespace {

TEST(ContentHash, IsTheSameOnEveryComputer) {
    EXPECT_EQ(content_hash(""), "99aa06d3014798d86001c324468d497f");  // from the XXH3 reference
}

TEST(ContentHash, DiffersForContentsThatDifferInOneBit) { EXPECT_NE(content_hash("ab"), content_hash("aa")); }

}  // namespace
}  // namespace stretto
