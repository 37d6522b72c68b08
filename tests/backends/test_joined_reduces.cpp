#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/backends.h"
#include "fuse/join_reduces.h"
#include "fuse/text.h"
#include "verify/verify.h"

namespace stretto {
namespace {

/// Rows of `columns` elements of x, each in its own way: their sums, the sums of exp(x - 2 sum), and the largest of x * y minus
/// the second ones; the second ones are read by others, too, also beside each element.
std::string three_reductions(std::int64_t rows, std::int64_t columns, const char* type) {
    return fmt::format(R"(buffer b0 = input "x" : {2}[{0}, {1}]
buffer b1 = input "y" : {2}[{0}, {1}]
buffer b2 = arena "sums" : f32[{0}]
buffer b3 = arena "exponentials" : {2}[{0}]
buffer b4 = output "largest" : f32[{0}]
buffer b5 = output "copy" : f32[{0}]
buffer b6 = output "elements" : {2}[{0}, {1}]
region r0 = reduce [{0}, {1}] kept 1 "sums" {{
    sum {{ a0 = b0 : {2} [{0}:{1}, {1}:1]  x0 = load a0 : {2}  x1 = cast x0 : f32  x2 = const 1 : f32  x3 = mul x1 x2 : f32 }}
    store b2 : f32 [{0}:1, {1}:0] = {{ x0 = acc 0 : f32 }}
}}
region r1 = reduce [{0}, {1}] kept 1 "exponentials" {{
    sum {{
        a0 = b0 : {2} [{0}:{1}, {1}:1]
        a1 = b2 : f32 [{0}:1, {1}:0]
        x0 = load a0 : {2}
        x1 = load a1 : f32
        x2 = sub x0 x1 : f32
        x3 = sub x2 x1 : f32
        x4 = exp x3 : f32
    }}
    store b3 : {2} [{0}:1, {1}:0] = {{ x0 = acc 0 : f32  x1 = log x0 : f32 }}
}}
region r2 = map [{0}] "copy" {{
    store b5 : f32 [{0}:1] = {{ a0 = b3 : {2} [{0}:1]  x0 = load a0 : {2}  x1 = cast x0 : f32  x2 = neg x1 : f32 }}
}}
region r3 = reduce [{0}, {1}] kept 1 "largest" {{
    max {{
        a0 = b0 : {2} [{0}:{1}, {1}:1]
        a1 = b1 : {2} [{0}:{1}, {1}:1]
        a2 = b3 : {2} [{0}:1, {1}:0]
        x0 = load a0 : {2}
        x1 = load a1 : {2}
        x2 = mul x0 x1 : f32
        x3 = load a2 : {2}
        x4 = sub x2 x3 : f32
    }}
    store b4 : f32 [{0}:1, {1}:0] = {{ x0 = acc 0 : f32 }}
}}
region r4 = map [{0}, {1}] "elements" {{
    store b6 : {2} [{0}:{1}, {1}:1] = {{
        a0 = b0 : {2} [{0}:{1}, {1}:1]
        a1 = b3 : {2} [{0}:1, {1}:0]
        x0 = load a0 : {2}
        x1 = load a1 : {2}
        x2 = sub x0 x1 : f32
    }}
}}
)",
                       rows, columns, type);
}

/// The bytes of all outputs, by name.
std::map<std::string, std::vector<std::byte>> outputs(const RegionGraph& graph, const Backend& backend) {
    const Plan plan = planned(graph, backend.machine);
    const std::vector<Fault> faults = verify(plan);
    EXPECT_TRUE(faults.empty()) << faults[0].message;
    BufferMemory memory(plan.graph.regions, 7);
    backend.run(plan, memory, 1);
    std::map<std::string, std::vector<std::byte>> bytes;
    for (const char* name : {"largest", "copy", "elements"})
        bytes[name] = memory.bytes(buffer_named(plan.graph.regions, name));
    return bytes;
}

class JoinedReduces : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t, const char*>> {};

TEST_P(JoinedReduces, GiveTheBitsThatTheyGiveApart) {
    const auto& [rows, columns, type] = GetParam();
    const RegionGraph apart = parse_region_graph(three_reductions(rows, columns, type));
    for (const Backend& backend : available_backends()) {
        SCOPED_TRACE(backend.name);
        RegionGraph together = apart;
        join_reduces(together, backend.machine);
        const std::int64_t row_of_all = rows <= 128 ? 1024 : 16384;  // few rows have all warps each
        const std::int64_t rows_at_once = columns < row_of_all ? backend.machine.consumer_warps : 1;
        const bool fills_workers = 2 * rows > backend.machine.workers * rows_at_once;
        const bool by_warps = columns >= 32 && fills_workers;
        ASSERT_EQ(together.regions.size(), by_warps ? 2U : 3U) << to_text(together);
        EXPECT_EQ(outputs(together, backend), outputs(apart, backend));
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, JoinedReduces,
                         testing::Values(std::tuple(40, 776, "bf16"), std::tuple(40, 776, "f32"),
                                         std::tuple(3, 259, "bf16"), std::tuple(300, 7, "f32"),
                                         std::tuple(1, 5000, "f16"), std::tuple(2, 17000, "bf16")));

}  // namespace
}  // namespace stretto
