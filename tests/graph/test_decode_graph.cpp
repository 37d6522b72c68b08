#include <gtest/gtest.h>

#include "graph/text.h"
#include "support/decode_graph.h"

namespace stretto {
namespace {

TEST(DecodeGraph, RoundTripsAsText) {
    const Graph graph = decode_graph(DecodeSizes{});
    check(graph);
    EXPECT_EQ(parse_graph(to_text(graph)), graph);
}

TEST(DecodeGraph, UpdatesTwoStatesPerLayer) {
    const Graph graph = decode_graph(DecodeSizes{});
    std::size_t updates = 0;
    for (const Output& output : graph.outputs) updates += output.state_input.valid() ? 1 : 0;
    EXPECT_EQ(updates, 4U);
}

}  // namespace
}  // namespace stretto
