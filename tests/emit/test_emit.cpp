#include <gtest/gtest.h>

#include <cstring>

#include "abi/abi.h"
#include "base/error.h"
#include "emit/cuda_file.h"
#include "emit/emit.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

Machine machine() { return builtin_machine("h200"); }

template <class T>
std::vector<T> items(const std::vector<std::byte>& bytes) {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

TEST(Emit, WritesAMapAsAFunctorOverOperandSlots) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::BF16, {4, 6}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, {4, 6}, BufferRole::Output);
    plan.add("model.act.square#7", sample::square(plan, x, y, {4, 6}), {Range{0, 24}, {}, {}, {}});
    const std::string source = emit(plan.finish(machine()), machine()).source;
    EXPECT_NE(source.find(R"(struct Square_0 {
    static constexpr bool kFew = true;
    static constexpr I32 kVector = 1;
    static constexpr bool kGathers = false;
    struct Early {
        static constexpr bool kWords = false;
        float e0;
    };
    BF16* p0;
    float* p1;
    __device__ explicit Square_0([[maybe_unused]] const Operands& operands)
        : p0(operands.at<BF16>(0)), p1(operands.at<float>(1)) {}
    __device__ __forceinline__ Early load(I32 at) const {
        const I32 i0 = at / 6;
        const I32 i1 = at % 6;
        return {read(p0 + (i0 * 6 + i1))};
    }
    __device__ __forceinline__ void store(I32 at, const Early& early) const {
        const I32 i0 = at / 6;
        const I32 i1 = at % 6;
        const float t0 = round_to<BF16>((early.e0 * early.e0));
        write(p1 + (i0 * 6 + i1), t0);
    }
};
)"),
              std::string::npos)
        << source;
    EXPECT_NE(source.find("using Kinds = KindList<Map<Square_0>>;"), std::string::npos);
}

TEST(Emit, AFileWithOtherKindsIsOtherwiseTheSame) {
    const std::string source = emit(sample::every_kind(machine(), 1), machine()).source;
    const std::vector<std::string> kinds = listed_kinds(source);
    ASSERT_GT(kinds.size(), 3U);
    EXPECT_EQ(with_kinds(source, kinds), source);
    const std::string alone = with_kinds(source, {kinds[1]});
    EXPECT_EQ(listed_kinds(alone), std::vector<std::string>{kinds[1]});
    EXPECT_EQ(with_kinds(alone, kinds), source);
}

TEST(Emit, NeighboursThatLieTogetherMoveInOneAccess) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::BF16, {32, 1024}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, {32, 1024}, BufferRole::Output);
    plan.add("square", sample::square(plan, x, y, {32, 1024}), {Range{0, 32768}, {}, {}, {}});
    const std::string source = emit(plan.finish(machine()), machine()).source;
    EXPECT_NE(source.find(R"(
    __device__ __forceinline__ EarlyVector load_vector(I32 at) const {
        const I32 i0 = at / 1024;
        const I32 i1 = at % 1024;
        return {read_vector<8>(p0 + (i0 * 1024 + i1))};
    }
    __device__ __forceinline__ Uniform uniform() const {
        return {};
    }
    __device__ __forceinline__ void store_vector(I32 at, const EarlyVector& early, const Uniform& uniform) const {
        const I32 i0 = at / 1024;
        const I32 i1 = at % 1024;
        Vector<float, 8> s0;
        #pragma unroll
        for (I32 v = 0; v < 8; ++v) {
            [[maybe_unused]] const I32 i1v = i1 + v;
            const float t0 = round_to<BF16>((early.e0.value(v) * early.e0.value(v)));
            s0.set(v, t0);
        }
        write_vector(p1 + (i0 * 1024 + i1), s0);
    }
)"),
              std::string::npos)
        << source;
}

TEST(Emit, NeighboursAtOnePlaceThatDataNamesMoveInOneAccess) {
    sample::PlanBuilder plan;
    const Shape space{512, 64};
    const BufferId numbers = plan.buffer("numbers", DType::I64, {512}, BufferRole::Input);
    const BufferId table = plan.buffer("table", DType::F32, {100, 64}, BufferRole::Parameter);
    const BufferId y = plan.buffer("y", DType::F32, space, BufferRole::Output);
    Access row = plan.access(table, space, {0, 1});
    row.indirect.push_back({64, 100});
    Store store{plan.access(y, space, {64, 1}), {}, {}};
    store.expr.load(row, {store.expr.load(plan.access(numbers, space, {1, 0}))});
    plan.add("gather", MapRegion{space, {store}}, {Range{0, 512 * 64}, {}, {}, {}});
    const std::string source = emit(plan.finish(machine()), machine()).source;
    EXPECT_NE(source.find(R"(        const I64 t0 = read(p0 + (i0));
        return {read(p0 + (i0)), read_vector<4>(p1 + (i1 + wrapped(t0, 100) * 64))};)"),
              std::string::npos)
        << source;
    EXPECT_NE(source.find("kGathers = true;"), std::string::npos);
}

TEST(Emit, WhatIsTheSameForAllGroupsIsLoadedAndComputedOnce) {
    sample::PlanBuilder plan;
    const Shape space{32, 1024};
    const BufferId x = plan.buffer("x", DType::F32, space, BufferRole::Input);
    const BufferId rate = plan.buffer("rate", DType::F64, {}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, space, BufferRole::Output);
    MapRegion map = sample::square(plan, x, y, space);
    Expr& value = map.stores[0].expr;
    const auto scale = value.cast(value.load(plan.access(rate, space, {0, 0})), DType::F32);
    const auto rest = value.apply(Op::Sub, {value.constant(1, DType::F32), scale});
    value.apply(Op::Mul, {1, value.apply(Op::Add, {scale, rest})});
    plan.add("scaled", map, {Range{0, 32768}, {}, {}, {}});
    const std::string source = emit(plan.finish(machine()), machine()).source;
    const std::size_t begin = source.find("struct EarlyVector {");
    ASSERT_NE(begin, std::string::npos);
    const std::string early = source.substr(begin, source.find("};", begin) - begin);
    EXPECT_NE(early.find("Vector<float, 4> e0;"), std::string::npos) << early;
    EXPECT_EQ(early.find("double"), std::string::npos) << early;
    const std::size_t uniform = source.find("Uniform uniform() const");
    ASSERT_NE(uniform, std::string::npos);
    EXPECT_EQ(source.find("read(p1", source.find("void store_vector")), std::string::npos) << source;
    EXPECT_NE(source.find("static_cast<float>(", uniform), std::string::npos) << source;
    EXPECT_NE(source.find("* uniform.e0", uniform), std::string::npos) << source;
    EXPECT_EQ(source.find("uniform.e1"), std::string::npos) << source;
}

TEST(Emit, WhatIsTheSameForAllGroupsIsWrittenOnceHoweverOftenItIsUsed) {
    sample::PlanBuilder plan;
    const Shape space{32, 1024};
    const BufferId x = plan.buffer("x", DType::F32, space, BufferRole::Input);
    const BufferId rate = plan.buffer("rate", DType::F32, {}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, space, BufferRole::Output);
    MapRegion map = sample::square(plan, x, y, space);
    Expr& value = map.stores[0].expr;
    auto power = value.load(plan.access(rate, space, {0, 0}));
    for (int i = 0; i < 40; ++i) power = value.apply(Op::Mul, {power, power});
    value.apply(Op::Mul, {1, power});
    plan.add("scaled", map, {Range{0, 32768}, {}, {}, {}});
    EXPECT_LT(emit(plan.finish(machine()), machine()).source.size(), 20000U);
}

TEST(Emit, OddRowsThatFollowOneAnotherMoveAsOneRow) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::F32, {1024, 33}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, {1024, 33}, BufferRole::Output);
    plan.add("square", sample::square(plan, x, y, {1024, 33}), {Range{0, 33792}, {}, {}, {}});
    const std::string source = emit(plan.finish(machine()), machine()).source;
    EXPECT_NE(source.find("return {read_vector<4>(p0 + (at))};"), std::string::npos) << source;
}

TEST(Emit, OddRowsThatAreApartMoveElementByElement) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::F32, {1024, 35}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, {1024, 35}, BufferRole::Output);
    MapRegion region = sample::square(plan, x, y, {1024, 33});
    region.stores[0].target = plan.access(y, {1024, 33}, {35, 1});
    region.stores[0].expr.accesses[0] = plan.access(x, {1024, 33}, {35, 1});
    plan.add("square", region, {Range{0, 33792}, {}, {}, {}});
    EXPECT_EQ(emit(plan.finish(machine()), machine()).source.find("read_vector"), std::string::npos);
}

TEST(Emit, OddRowsThatBeginAtGroupsHaveARest) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::F32, {1024, 36}, BufferRole::Input);
    const BufferId y = plan.buffer("y", DType::F32, {1024, 36}, BufferRole::Output);
    MapRegion region = sample::square(plan, x, y, {1024, 33});
    region.stores[0].target = plan.access(y, {1024, 33}, {36, 1});
    region.stores[0].expr.accesses[0] = plan.access(x, {1024, 33}, {36, 1});
    plan.add("square", region, {Range{0, 33792}, {}, {}, {}});
    const std::string source = emit(plan.finish(machine()), machine()).source;
    EXPECT_NE(source.find("kRow = 33;"), std::string::npos) << source;
    EXPECT_NE(source.find("return {read_vector<4>(p0 + (i0 * 36 + i1))};"), std::string::npos) << source;
    EXPECT_NE(source.find("KindList<MapRows<Square_0>>"), std::string::npos) << source;
}

TEST(Emit, LoadsOfTaggedBuffersMadeAheadSayWhetherTheyAreReady) {
    const std::string source = emit(sample::every_kind(machine(), 1, true), machine()).source;
    EXPECT_NE(source.find(R"(    struct LeftEarly {
        static constexpr bool kWords = true;
        Word<Tagged<float>> e0;
        __device__ __forceinline__ bool ready(U32 tag) const { return e0.ready(tag); }
        __device__ __forceinline__ U32 missing(U32 tag) const { return !e0.ready(tag) ? 0u : kNoneMissing; }
    };)"),
              std::string::npos)
        << source;
    EXPECT_NE(source.find("return {ask(p0 + (k))};"), std::string::npos) << source;
}

/// y = silu(x gate) * (x up) of one row, whose arena buffers travel as words.
Plan gated_in_words(DType x_type, BufferRole y_role) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", x_type, {1, 2048}, BufferRole::Arena);
    const BufferId gate = plan.buffer("gate", DType::BF16, {8, 2048}, BufferRole::Parameter);
    const BufferId up = plan.buffer("up", DType::BF16, {8, 2048}, BufferRole::Parameter);
    const BufferId y = plan.buffer("y", DType::BF16, {1, 8}, y_role);
    plan.add("gated", sample::gated(plan, x, gate, up, y, {1, 1, 8, 2048}),
             {Range{0, 1}, {0, 1}, {0, 8}, {}});
    plan.tag_arena();
    return plan.finish(machine());
}

TEST(Emit, NeighboursOfALeftSideAreAskedForTogether) {
    const std::string source = emit(gated_in_words(DType::BF16, BufferRole::Output), machine()).source;
    for (const char* line :
         {"static constexpr I32 kWidth = 2;", "static constexpr I32 kRowWarps = 8;",
          "WordVector<Tagged<BF16>, 2> e0;", "return {ask_vector<2>(p0 + (k))};", "early.e0.value(v)"}) {
        EXPECT_NE(source.find(line), std::string::npos) << line << " in\n" << source;
    }
}

TEST(Emit, LoadsWaitForTheWordsThatTheyReadAndStoresTagThoseThatTheyWrite) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::BF16, {24}, BufferRole::Arena);
    const BufferId y = plan.buffer("y", DType::F32, {24}, BufferRole::Arena);
    plan.add("square", sample::square(plan, x, y, {24}), {Range{0, 24}, {}, {}, {}});
    plan.tag_arena();
    const std::string source = emit(plan.finish(machine()), machine()).source;
    for (const char* line : {"Tagged<BF16>* p0;", "Tagged<float>* p1;", "Words words;",
                             "Word<Tagged<BF16>> e0;", "return {ask(p0 + (i0))};",
                             "const float t0 = round_to<BF16>((early.e0.value() * early.e0.value()));",
                             "write(p1 + (i0), t0, words);"}) {
        EXPECT_NE(source.find(line), std::string::npos) << line << " in\n" << source;
    }
}

TEST(Emit, PackedWordsAreAskedForBySixteenBytes) {
    Plan plan = gated_in_words(DType::F32, BufferRole::Arena);
    for (Buffer& buffer : plan.graph.regions.buffers) buffer.packed = buffer.tagged;
    const std::string source = emit(plan, machine()).source;
    for (const char* line : {"Packed<float>* p0;", "Packed<BF16>* p3;", "WordVector<Packed<float>, 4> e0;",
                             "return {ask_vector<4>(p0 + (k))};"}) {
        EXPECT_NE(source.find(line), std::string::npos) << line << " in\n" << source;
    }
}

TEST(Emit, SourceDoesNotGrowWithLayers) {
    EXPECT_EQ(emit(sample::every_kind(machine(), 2), machine()).source,
              emit(sample::every_kind(machine(), 30), machine()).source);
}

TEST(Emit, IsDeterministic) {
    const Emission a = emit(sample::every_kind(machine(), 3), machine());
    const Emission b = emit(sample::every_kind(machine(), 3), machine());
    EXPECT_EQ(a.source, b.source);
    EXPECT_EQ(a.records, b.records);
    EXPECT_EQ(a.loads, b.loads);
    EXPECT_EQ(a.workers, b.workers);
}

TEST(Emit, RecordsNameBuffersInOrderOfFirstUse) {
    sample::PlanBuilder plan;
    const BufferId y = plan.buffer("y", DType::F32, {24}, BufferRole::Output);
    const BufferId x = plan.buffer("x", DType::F32, {24}, BufferRole::Input);
    plan.add("square", sample::square(plan, x, y, {24}), {Range{8, 24}, {}, {}, {}});
    const auto records = items<abi::Record>(emit(plan.finish(machine()), machine()).records);
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].operands[0], static_cast<abi::U64>(x.value));
    EXPECT_EQ(records[0].operands[1], static_cast<abi::U64>(y.value));
    EXPECT_EQ(records[0].operands[2], abi::kNoOperand);
    EXPECT_EQ(records[0].tile[0].begin, 8);
    EXPECT_EQ(records[0].tile[0].end, 24);
}

TEST(Emit, RecordsCarryWaitsWithTheTotalOfTheirEvent) {
    Plan plan = sample::every_kind(machine(), 1);
    plan.events = {{HandOff::Counter, 3, "a"}, {HandOff::Counter, 5, "b"}};
    plan.workers[0].queue[1].waits = {{EventId(1), 4}};
    plan.workers[0].queue[0].signals = {EventId(0), EventId(1)};
    const auto records = items<abi::Record>(emit(plan, machine()).records);
    ASSERT_EQ(records[1].wait_count, 1U);
    EXPECT_EQ(records[1].waits[0].event, 1U);
    EXPECT_EQ(records[1].waits[0].target, 4U);
    EXPECT_EQ(records[1].waits[0].total, 5U);
    ASSERT_EQ(records[0].signal_count, 2U);
    EXPECT_EQ(records[0].signals[1], 1U);
}

TEST(Emit, LoadsOfPanelsCarryTheirRows) {
    const Emission emission = emit(sample::every_kind(machine(), 1), machine());
    const auto loads = items<abi::Load>(emission.loads);
    ASSERT_EQ(loads.size(), 4U) << "two panels of two weights";
    EXPECT_EQ(loads[2].address, 8U * 1152U);
    EXPECT_EQ(loads[2].rows, 8U);
    EXPECT_EQ(loads[2].row_bytes, 1152U);
    EXPECT_EQ(loads[2].row_stride, 1152U);
    EXPECT_EQ(loads[2].bytes, 8U * 1152U);
    EXPECT_EQ(items<abi::WorkerRange>(emission.workers)[0].load_count, 4U);
}

TEST(Emit, WorkersAskForLittleMoreThanTheirShareOfTheBandwidth) {
    const auto gap_of = [](std::size_t workers, Machine machine) {
        Plan plan = sample::every_kind(machine, 1);
        plan.workers.resize(workers, plan.workers.front());
        const std::string source = emit(plan, machine).source;
        const std::size_t end = source.find(">;\n\nextern");
        const std::size_t begin = source.rfind(", ", end) + 2;
        return source.substr(begin, end - begin);
    };
    EXPECT_EQ(gap_of(132, machine()), "46") << "1980 x 1024 x 132 / (1.3 x 4.5e6)";
    EXPECT_EQ(gap_of(66, machine()), "23");
    Machine slower = machine();
    slower.bandwidth = 3e6;
    EXPECT_EQ(gap_of(132, slower), "69");
    slower.clock = 0;
    EXPECT_EQ(gap_of(132, slower), "0");
}

TEST(Emit, RecordsCarryTheRowsOfLoadsOfWholeRows) {
    sample::PlanBuilder plan;
    const BufferId x = plan.buffer("x", DType::F32, {1, 576}, BufferRole::Input);
    const BufferId gate = plan.buffer("gate", DType::F32, {16, 576}, BufferRole::Parameter);
    const BufferId up = plan.buffer("up", DType::F32, {16, 576}, BufferRole::Parameter);
    const BufferId y = plan.buffer("y", DType::F32, {1, 16}, BufferRole::Output);
    MatMulRegion region = sample::gated(plan, x, gate, up, y, {1, 1, 16, 576});
    region.a_type = DType::F32;
    plan.add("gated", region, {Range{0, 1}, {0, 1}, {0, 16}, {}});
    const Emission emission = emit(plan.finish(machine()), machine());
    EXPECT_EQ(items<abi::Record>(emission.records)[0].rows_per_load, 7) << "rows of 2304 bytes in 16 KB";
    const auto loads = items<abi::Load>(emission.loads);
    ASSERT_EQ(loads.size(), 6U);
    EXPECT_EQ(loads[0].bytes, 7U * 2304U);
    EXPECT_EQ(loads[4].bytes, 2U * 2304U);
}

TEST(Emit, RefusesMoreSharedMemoryThanAWorkerHas) {
    Plan plan = sample::every_kind(machine(), 1);
    plan.shared.slots = 32;
    EXPECT_THROW(static_cast<void>(emit(plan, machine())), InternalError);
}

TEST(Emit, NamesTheRegionThatUsesTooManyBuffers) {
    sample::PlanBuilder plan;
    MapRegion region{{8}, {}};
    for (int i = 0; i <= abi::kMaxOperands; ++i) {
        const BufferId y = plan.buffer("y" + std::to_string(i), DType::F32, {8}, BufferRole::Output);
        Store store{plan.access(y, {8}, {1}), {}, {}};
        store.expr.constant(1, DType::F32);
        region.stores.push_back(store);
    }
    plan.add("too.wide#3", region, {Range{0, 8}, {}, {}, {}});
    try {
        static_cast<void>(emit(plan.finish(machine()), machine()));
        FAIL() << "accepted";
    } catch (const InternalError& error) {
        EXPECT_NE(std::string(error.what()).find("too.wide#3"), std::string::npos);
    }
}

}  // namespace
}  // namespace stretto
