// What it would save to load the left side of a product once a cluster instead of once a worker:
//   nvcc -arch=sm_90a -std=c++20 -O3 benchmarks/cluster_share.cu -o cluster_share && ./cluster_share
// 132 CTAs stage the same left side (F32 in the L2 cache, 16-bit floats in shared memory), 64 times, each with a barrier before and
// behind. With `share` 1 every CTA loads all of it; else each CTA of a cluster loads a part and stores it into the shared memory of all
// (distributed shared memory, handed over by mbarriers). Beside it another warp streams pieces of 16 KB from memory through a ring of
// `slots`, or nothing. Prints microseconds for one staging, a mean over CTAs and the median of nine launches, and clusters that fit.

#include <cooperative_groups.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using U32 = std::uint32_t;
using U64 = std::uint64_t;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kStagings = 64;
constexpr int kPiece = 16384;
constexpr int kMostSlots = 8;
constexpr int kPieces = 700;  // of each CTA: more than 64 stagings take
constexpr std::size_t kStreamBytes = 4UL << 30;
constexpr int kSharedBytes = 200 * 1024;
constexpr int kCtas = 132;

struct Input {
    const uint4* left;
    const unsigned char* stream;
    int slots;
    long long* cycles;  // by CTA
    float* sink;        // keeps the reads alive
};

__device__ __forceinline__ U32 address(const void* p) {
    return static_cast<U32>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ U32 in_cta(U32 at, U32 rank) {
    U32 mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(at), "r"(rank));
    return mapped;
}

__device__ __forceinline__ void init(U32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void arrive(U32 barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(U32 barrier, int parity) {
    for (U32 passed = 0; passed == 0;) {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 "
            "%0, 1, 0, p; }"
            : "=r"(passed)
            : "r"(barrier), "r"(parity)
            : "memory");
    }
}

__device__ __forceinline__ uint4 load(const uint4* at) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}

__device__ __forceinline__ U32 narrow(U32 low, U32 high) {
    U32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(__uint_as_float(high)), "f"(__uint_as_float(low)));
    return pair;
}

__device__ __forceinline__ void store(U32 at, uint2 pairs) {
    asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(pairs.x), "r"(pairs.y)
                 : "memory");
}

__device__ __forceinline__ void consumer_barrier() {
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

struct Barriers {
    U64 full;  // the left side has come from all of the cluster
    U64 free;  // all of the cluster have read the one before
    U64 slots[kMostSlots];
};

/// The stream: one thread keeps `slots` pieces on their way.
__device__ void stream(const Input& in, Barriers& barriers, unsigned char* ring) {
    std::size_t at = static_cast<std::size_t>(blockIdx.x) * kPiece;
    for (int n = 0; n < kPieces + in.slots; ++n) {
        const int slot = n % in.slots;
        const U32 barrier = address(&barriers.slots[slot]);
        if (n >= in.slots) wait(barrier, (n / in.slots - 1) & 1);
        if (n >= kPieces) continue;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(kPiece)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                address(ring + slot * kPiece)),
            "l"(in.stream + at), "r"(kPiece), "r"(barrier)
            : "memory");
        at = (at + static_cast<std::size_t>(gridDim.x) * kPiece) % kStreamBytes;
    }
}

/// Stages `Groups` times 16 bytes of the left side, 64 times.
template <int Share, int Groups>
__device__ void stage(const Input& in, Barriers& barriers, uint2* side, U32 rank) {
    constexpr int kMine = Groups / Share / kThreads;
    const int thread = static_cast<int>(threadIdx.x);
    const U32 full = address(&barriers.full);
    const U32 free = address(&barriers.free);
    float sum = 0;
    const long long begin = clock64();
    for (int i = 0; i < kStagings; ++i) {
        if (Share > 1 && thread < Share) arrive(in_cta(free, thread));
        uint4 values[kMine];
#pragma unroll
        for (int r = 0; r < kMine; ++r)
            values[r] = load(in.left + i % 4 * Groups + (r * Share + rank) * kThreads + thread);
        if (Share > 1) wait(free, i & 1);
#pragma unroll
        for (int r = 0; r < kMine; ++r) {
            const uint4 v = values[r];
            const U32 at = address(side + (r * Share + rank) * kThreads + thread);
#pragma unroll
            for (int cta = 0; cta < Share; ++cta)
                store(Share == 1 ? at : in_cta(at, cta), make_uint2(narrow(v.x, v.y), narrow(v.z, v.w)));
        }
        if constexpr (Share > 1) {
            __syncwarp();
            if (thread % 32 < Share) arrive(in_cta(full, thread % 32));
            wait(full, i & 1);
        } else {
            consumer_barrier();
        }
        for (int k = 0; k < 8; ++k) sum += __uint_as_float(side[(thread * 7 + k * kThreads) % Groups].x);
        consumer_barrier();
    }
    if (thread == 0) in.cycles[blockIdx.x] = clock64() - begin;
    in.sink[blockIdx.x * kThreads + thread] = sum;
}

template <int Share, int Groups>
__global__ __launch_bounds__(kThreads + 32, 1) void run(Input in) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ Barriers barriers;
    const U32 rank = blockIdx.x % Share;
    if (threadIdx.x == 0) {
        init(address(&barriers.full), Share * kWarps);
        init(address(&barriers.free), Share);
        for (U64& slot : barriers.slots) init(address(&slot), 1);
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    cooperative_groups::this_cluster().sync();
    if (threadIdx.x < kThreads) {
        stage<Share, Groups>(in, barriers, reinterpret_cast<uint2*>(memory), rank);
    } else if (threadIdx.x == kThreads && in.slots > 0) {
        stream(in, barriers, memory + Groups * 8);
    }
    cooperative_groups::this_cluster().sync();  // a CTA's shared memory outlives the stores of the others
}

void check(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "cluster_share: %s\n", cudaGetErrorString(status));
    std::exit(1);
}

template <int Share, int Groups>
void measure(Input in) {
    const auto kernel = run<Share, Groups>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {Share, 1, 1};
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = kCtas / Share * Share;
    config.blockDim = kThreads + 32;
    config.dynamicSmemBytes = kSharedBytes;
    config.attrs = attributes;
    config.numAttrs = 2;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    config.gridDim.x = std::min<unsigned>(config.gridDim.x, clusters * Share);
    int khz = 0;
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    std::vector<double> times;
    std::vector<long long> cycles(config.gridDim.x);
    for (int launch = 0; launch < 9; ++launch) {
        check(cudaLaunchKernelEx(&config, kernel, in));
        check(
            cudaMemcpy(cycles.data(), in.cycles, cycles.size() * sizeof(long long), cudaMemcpyDeviceToHost));
        double sum = 0;
        for (long long each : cycles) sum += static_cast<double>(each);
        times.push_back(sum / static_cast<double>(cycles.size()) / kStagings / khz * 1e3);
    }
    std::sort(times.begin(), times.end());
    std::printf("| %d | %d | %d | %d | %.2f |\n", Groups * 16, in.slots * kPiece, Share, clusters, times[4]);
}

}  // namespace

int main() {
    Input in{};
    void* memory = nullptr;
    check(cudaMalloc(&memory, kStreamBytes));
    check(cudaMemset(memory, 1, kStreamBytes));
    in.stream = static_cast<const unsigned char*>(memory);
    check(cudaMalloc(&memory, 4 * 4096 * sizeof(uint4)));
    check(cudaMemset(memory, 1, 4 * 4096 * sizeof(uint4)));
    in.left = static_cast<const uint4*>(memory);
    check(cudaMalloc(reinterpret_cast<void**>(&in.cycles), kCtas * sizeof(long long)));
    check(cudaMalloc(reinterpret_cast<void**>(&in.sink), kCtas * kThreads * sizeof(float)));
    std::printf(
        "| bytes staged | bytes streamed ahead | share | clusters that fit | us |\n|---|---|---|---|---|\n");
    for (int slots : {0, 1, 2, 3, 4, 6, 8}) {
        in.slots = slots;
        measure<1, 1024>(in);
        measure<2, 1024>(in);
        measure<4, 1024>(in);
        measure<1, 4096>(in);
        measure<2, 4096>(in);
        measure<4, 4096>(in);
    }
}
