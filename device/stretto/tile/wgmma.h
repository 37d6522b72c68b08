#pragma once

#include "stretto/types.h"

/// Tensor-core products of a warp group, from shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix
/// Multiply-Accumulate Instructions"; sm_90a).
namespace stretto::device {

/// Describes a block in swizzled lines (tile/lines.h) from `address` on. Eight lines follow each other at once; of a column
/// operand the next 64 rows are a panel of 64 lines further. The lower half of a descriptor, which has the address in units
/// of 16 bytes: the upper half is the same for all, and a block some bytes further has a lower half so much larger.
template <bool Column>
__device__ __forceinline__ U32 block_descriptor(U32 address) {
    constexpr U32 kLeading = Column ? 64 * abi::kLineBytes : 16;
    return kLeading >> 4 << 16 | (address & 0x3ffff) >> 4;
}

__device__ __forceinline__ U64 whole_descriptor(U32 lower) {
    constexpr U32 kSwizzle128 = 1u << 30;
    constexpr U32 kStride = abi::kLineGroupBytes;
    return static_cast<U64>(kSwizzle128 | kStride >> 4) << 32 | lower;
}

#define STRETTO_SUMS(j) "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
#define STRETTO_SUMS_4(j) STRETTO_SUMS(j), STRETTO_SUMS((j) + 1), STRETTO_SUMS((j) + 2), STRETTO_SUMS((j) + 3)
#define STRETTO_SUMS_8(j) STRETTO_SUMS_4(j), STRETTO_SUMS_4((j) + 4)
#define STRETTO_SUMS_16(j) STRETTO_SUMS_8(j), STRETTO_SUMS_8((j) + 8)

/// Placeholders of so many sums of a thread.
#define STRETTO_REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define STRETTO_REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define STRETTO_REGISTERS_24 STRETTO_REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define STRETTO_REGISTERS_32 \
    STRETTO_REGISTERS_16     \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define STRETTO_REGISTERS_64                                                           \
    STRETTO_REGISTERS_32                                                               \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define STRETTO_REGISTERS_96                                                           \
    STRETTO_REGISTERS_64                                                               \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define STRETTO_REGISTERS_128                                                                      \
    STRETTO_REGISTERS_96                                                                           \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// INPUTS: placeholders of a, b, 1, and whether A and B are column operands.
#define STRETTO_WGMMA(SHAPE, TYPE, REGISTERS, INPUTS, ONE, ...)                                   \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " ONE ", 0; wgmma.mma_async.sync.aligned." SHAPE \
                 ".f32." TYPE "." TYPE " {" REGISTERS "}, " INPUTS "; }"                          \
                 : __VA_ARGS__                                                                    \
                 : "l"(a), "l"(b), "r"(static_cast<int>(Adds)), "n"(static_cast<int>(AColumn)),   \
                   "n"(static_cast<int>(BColumn)))

/// The same with A in registers.
#define STRETTO_WGMMA_HELD(SHAPE, TYPE, REGISTERS, INPUTS, ONE, ...)                              \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " ONE ", 0; wgmma.mma_async.sync.aligned." SHAPE \
                 ".f32." TYPE "." TYPE " {" REGISTERS "}, " INPUTS "; }"                          \
                 : __VA_ARGS__                                                                    \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(1), "n"(static_cast<int>(BColumn)))

#define STRETTO_WGMMA_32(TYPE)                                                                   \
    STRETTO_WGMMA("m64n32k16", TYPE, STRETTO_REGISTERS_16, "%16, %17, p, 1, 1, %19, %20", "%18", \
                  STRETTO_SUMS_4(0))
#define STRETTO_WGMMA_64(TYPE)                                                                   \
    STRETTO_WGMMA("m64n64k16", TYPE, STRETTO_REGISTERS_32, "%32, %33, p, 1, 1, %35, %36", "%34", \
                  STRETTO_SUMS_8(0))
#define STRETTO_WGMMA_128(TYPE)                                                                   \
    STRETTO_WGMMA("m64n128k16", TYPE, STRETTO_REGISTERS_64, "%64, %65, p, 1, 1, %67, %68", "%66", \
                  STRETTO_SUMS_16(0))
#define STRETTO_WGMMA_192(TYPE)                                                                    \
    STRETTO_WGMMA("m64n192k16", TYPE, STRETTO_REGISTERS_96, "%96, %97, p, 1, 1, %99, %100", "%98", \
                  STRETTO_SUMS_16(0), STRETTO_SUMS_8(16))
#define STRETTO_WGMMA_256(TYPE)                                                                         \
    STRETTO_WGMMA("m64n256k16", TYPE, STRETTO_REGISTERS_128, "%128, %129, p, 1, 1, %131, %132", "%130", \
                  STRETTO_SUMS_16(0), STRETTO_SUMS_16(16))

#define STRETTO_WGMMA_HELD_16(TYPE)                                                                     \
    STRETTO_WGMMA_HELD("m64n16k16", TYPE, STRETTO_REGISTERS_8, "{%8, %9, %10, %11}, %12, p, 1, 1, %14", \
                       "%13", STRETTO_SUMS(0), STRETTO_SUMS(1))
#define STRETTO_WGMMA_HELD_32(TYPE)                                                                        \
    STRETTO_WGMMA_HELD("m64n32k16", TYPE, STRETTO_REGISTERS_16, "{%16, %17, %18, %19}, %20, p, 1, 1, %22", \
                       "%21", STRETTO_SUMS_4(0))
#define STRETTO_WGMMA_HELD_48(TYPE)                                                                        \
    STRETTO_WGMMA_HELD("m64n48k16", TYPE, STRETTO_REGISTERS_24, "{%24, %25, %26, %27}, %28, p, 1, 1, %30", \
                       "%29", STRETTO_SUMS_4(0), STRETTO_SUMS(4), STRETTO_SUMS(5))
#define STRETTO_WGMMA_HELD_64(TYPE)                                                                        \
    STRETTO_WGMMA_HELD("m64n64k16", TYPE, STRETTO_REGISTERS_32, "{%32, %33, %34, %35}, %36, p, 1, 1, %38", \
                       "%37", STRETTO_SUMS_8(0))

template <int Columns, bool AColumn, bool BColumn, bool Adds>
__device__ __forceinline__ void multiply_group(BF16, float (*sums)[4], U64 a, U64 b) {
    if constexpr (Columns == 256) STRETTO_WGMMA_256("bf16");
    if constexpr (Columns == 192) STRETTO_WGMMA_192("bf16");
    if constexpr (Columns == 128) STRETTO_WGMMA_128("bf16");
    if constexpr (Columns == 64) STRETTO_WGMMA_64("bf16");
    if constexpr (Columns == 32) STRETTO_WGMMA_32("bf16");
}

template <int Columns, bool AColumn, bool BColumn, bool Adds>
__device__ __forceinline__ void multiply_group(F16, float (*sums)[4], U64 a, U64 b) {
    if constexpr (Columns == 256) STRETTO_WGMMA_256("f16");
    if constexpr (Columns == 192) STRETTO_WGMMA_192("f16");
    if constexpr (Columns == 128) STRETTO_WGMMA_128("f16");
    if constexpr (Columns == 64) STRETTO_WGMMA_64("f16");
    if constexpr (Columns == 32) STRETTO_WGMMA_32("f16");
}

/// sums += A B, with A of 64 rows and B of `Columns` columns (32, 64, 128, 192 or 256), both 16 deep, given by the lower
/// halves of their descriptors. An instruction reads A once for all of its columns: wide ones read less. `sums` are the
/// Columns / 8 fragments of this warp's 16 rows. Without `Adds` nothing is added to: what they were does not matter.
template <class T, int Columns, bool AColumn, bool BColumn, bool Adds = true>
__device__ __forceinline__ void multiply_group(float (*sums)[4], U32 a, U32 b) {
    multiply_group<Columns, AColumn, BColumn, Adds>(T{}, sums, whole_descriptor(a), whole_descriptor(b));
}

template <int Columns, bool BColumn>
__device__ __forceinline__ void multiply_held(BF16, float (*sums)[4], const uint4& a, U64 b) {
    if constexpr (Columns == 64) STRETTO_WGMMA_HELD_64("bf16");
    if constexpr (Columns == 48) STRETTO_WGMMA_HELD_48("bf16");
    if constexpr (Columns == 32) STRETTO_WGMMA_HELD_32("bf16");
    if constexpr (Columns == 16) STRETTO_WGMMA_HELD_16("bf16");
}

template <int Columns, bool BColumn>
__device__ __forceinline__ void multiply_held(F16, float (*sums)[4], const uint4& a, U64 b) {
    if constexpr (Columns == 64) STRETTO_WGMMA_HELD_64("f16");
    if constexpr (Columns == 48) STRETTO_WGMMA_HELD_48("f16");
    if constexpr (Columns == 32) STRETTO_WGMMA_HELD_32("f16");
    if constexpr (Columns == 16) STRETTO_WGMMA_HELD_16("f16");
}

/// The same with this warp's 16 rows of A in registers, as those of multiply_add_tile (tile/mma.h), and 16, 32, 48 or 64
/// columns.
template <class T, int Columns, bool BColumn>
__device__ __forceinline__ void multiply_held(float (*sums)[4], const uint4& a, U32 b) {
    multiply_held<Columns, BColumn>(T{}, sums, a, whole_descriptor(b));
}

/// Registers that products have, or are about to have: no instruction of another kind that reads or writes them moves past
/// this.
template <int N>
__device__ __forceinline__ void hold(float (&sums)[N][4]) {
#pragma unroll
    for (float(&fragment)[4] : sums) {
        asm volatile(""
                     : "+f"(fragment[0]), "+f"(fragment[1]), "+f"(fragment[2]), "+f"(fragment[3])::"memory");
    }
}

/// Products see what was written to their registers before this.
__device__ __forceinline__ void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Those that were started since the last group are one.
__device__ __forceinline__ void close_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `Pending` groups run.
template <int Pending>
__device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// Copies are made by the generic proxy, wgmma reads through the asynchronous one (PTX ISA, "Async proxy").
__device__ __forceinline__ void publish_to_products() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace stretto::device
