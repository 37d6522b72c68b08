#pragma once

/// The ground that host and device share: plain fixed-size structs, no standard headers (NVRTC reads this file too).
namespace stretto::abi {

using U32 = unsigned int;
using U64 = unsigned long long;
using I32 = int;

inline constexpr int kMaxWaits = 6;
inline constexpr int kMaxSignals = 4;
inline constexpr int kMaxOperands = 16;
inline constexpr int kTileRank = 4;
inline constexpr int kMaxDynamic = 256;  ///< Input and Output buffers of one program
inline constexpr int kMaxSlots = 32;     ///< slots of one worker's ring

// Streamed 16-bit weights are multiplied on tensor cores, a panel of rows of one weight at a time.
inline constexpr int kPanelRows = 8;  ///< the narrow side of mma.m16n8k16
inline constexpr int kChunk = 32;  ///< values of k in one chunk: 8 for each of the 4 lanes that share a row
inline constexpr int kPieceDepth = 1024;  ///< values of k of a panel that travel in one load, before rounding
inline constexpr int kRowSlotBytes = 16384;  ///< most bytes of a load of whole rows, unless a row is longer
inline constexpr int kPanelSumBytes =
    32768;  ///< most bytes of a task's partial sums, unless a panel has more

/// Distance between two counters in U32 words: one 32-byte L2 sector each, so that signals do not meet in one.
inline constexpr int kCounterStride = 8;

/// Bytes at the start of a worker's shared memory that the kernel keeps for barriers and records.
inline constexpr int kControlBytes = 1536;

/// Set in an operand that is an index into Launch::dynamic instead of an address.
inline constexpr U64 kDynamicTag = 1ull << 63;
inline constexpr U64 kNoOperand = ~0ull;

/// Load::dynamic of a load whose address is absolute.
inline constexpr U32 kNoDynamic = ~0u;

/// ErrorBlock::event of a wait for the stream ring.
inline constexpr U32 kRingEvent = ~0u;

/// ErrorBlock::event of the barrier between two iterations.
inline constexpr U32 kIterationEvent = ~0u - 1;

/// ErrorBlock::event of a wait for a word; `seen` is the operand slot of its buffer, `wanted` the tag.
inline constexpr U32 kWordEvent = ~0u - 2;

/// The tag's bit of a packed word.
inline constexpr U32 kPackedTag = 1;

/// More F32 products in tiles than this are summed block by block: one by one, each would be rounded to the size of all.
inline constexpr I32 kLongSum = 1024;

/// Set in *Launch::progress once no iteration follows.
inline constexpr U32 kEnded = 1u << 31;

/// Holds once `target` signals of this launch have arrived. `total` is what the event receives in every launch.
struct Wait {
    U32 event;
    U32 target;
    U32 total;
};

struct Range {
    I32 begin;
    I32 end;
};

/// One task. In a package, operand i is the buffer id of the region's i-th distinct buffer; the loader replaces it by
/// an address, or by kDynamicTag | index for buffers that change from launch to launch. Unused: kNoOperand.
struct alignas(16) Record {
    U32 kind;
    U32 task;
    U32 wait_count;
    U32 signal_count;
    Range tile[kTileRank];
    U64 operands[kMaxOperands];
    Wait waits[kMaxWaits];
    U32 signals[kMaxSignals];  ///< events
    I32 rows_per_load;         ///< MatMul: rows of a weight in each of the task's loads but the last
    U32 reserved;
};
static_assert(sizeof(Record) == 272);
static_assert(sizeof(Record) % 16 == 0, "records travel in 16-byte pieces");

/// One piece of a worker's stream: some rows of a buffer into one slot, row r at `panel_row`. In a package `dynamic` is a
/// buffer id and `address` an offset into that buffer. Sizes in bytes, all multiples of 16.
struct alignas(16) Load {
    U64 address;
    U32 dynamic;  ///< kNoDynamic, or the index of Launch::dynamic that `address` is relative to
    U32 rows;
    U32 row_bytes;
    U32 row_stride;  ///< from one row to the next in memory
    U32 bytes;       ///< of all rows
    U32 reserved;
};
static_assert(sizeof(Load) == 32);

/// Where one worker's records and loads are.
struct alignas(16) WorkerRange {
    U32 first_record;
    U32 record_count;
    U32 first_load;
    U32 load_count;
};
static_assert(sizeof(WorkerRange) == 16);

/// Written by the first wait that times out.
struct ErrorBlock {
    U32 flag;  ///< nonzero: every worker leaves
    U32 worker;
    U32 task;
    U32 event;
    U32 seen;
    U32 wanted;
    U32 reserved[2];
};
static_assert(sizeof(ErrorBlock) == 32);

// What a traced launch writes down (device/stretto/profile). Times are values of the SM's clock, except where they are
// nanoseconds of the device's timer; zero where nothing was written.

/// One task, written by its worker. In this order; `staged` is left out by kinds that stage nothing.
struct alignas(16) TaskStamps {
    U64 begun;      ///< its record is at hand
    U64 ready;      ///< its waits hold
    U64 staged;     ///< its inputs are in shared memory
    U64 computed;   ///< all its stores are made
    U64 published;  ///< its signals are sent
    U64 stalled;    ///< how long the stamping warp waited for loads
};
static_assert(sizeof(TaskStamps) == 48);

/// The same moment on both clocks.
struct ClockPair {
    U64 timer;   ///< nanoseconds, just after they changed
    U64 cycles;  ///< of the SM's clock
    U64 step;    ///< nanoseconds by which the timer changed: how finely it ticks
};

/// One worker: what places its SM's clock on the timer that all share.
struct WorkerStamps {
    ClockPair begin;
    ClockPair end;
};
static_assert(sizeof(WorkerStamps) == 48);

/// Where the stamps go; null in a launch that is not traced.
struct TraceTarget {
    TaskStamps* tasks;      ///< by task
    U64* loads;             ///< by load: when it was issued
    WorkerStamps* workers;  ///< by worker
};

/// What the workers of a program share between iterations. Every worker adds one to `finished` at the end of every
/// iteration that it ever ran: divided by those of one iteration it is the number of earlier iterations, the *epoch*,
/// which is the base of every counter, so that no launch has to reset anything.
struct Meeting {
    U64 finished;
    U32 stop[2];  ///< by parity of the epoch: does Launch::stop or Launch::granted end the launch?
};
static_assert(sizeof(Meeting) == 16);

/// The kernel's only parameter.
struct Launch {
    const Record* records;
    const Load* loads;
    const WorkerRange* workers;
    U32* counters;
    Meeting* meeting;
    ErrorBlock* error;
    U64 timeout_ns;
    U64 kernels;  ///< that a launch consists of: more than one only where phases run as kernels of their own
    TraceTarget trace;
    const unsigned char* stop;  ///< null, or a Bool of the program that ends the launch once it is set
    U32* progress;              ///< null, or host memory that the device reaches: iterations done, and kEnded
    const U32* granted;         ///< null, or host memory that the device reaches: iterations that may run
    U32 iterations;             ///< how often the plan runs, at least 1
    U32 stop_worker;            ///< the only worker whose tasks write `stop`; it looks at `granted` as well
    U64 dynamic[kMaxDynamic];
};
static_assert(sizeof(Launch) == 120 + 8 * kMaxDynamic);

/// Outputs of a non-streamed MatMul whose partial sums are in shared memory at one time.
inline constexpr int kDirectChunk = 256;

[[nodiscard]] constexpr long long round_up(long long bytes, long long to) {
    return (bytes + to - 1) / to * to;
}

/// Bytes from an even row of a panel in its slot to the odd one behind it: 64 more than a multiple of 128, so that the two,
/// of which 8 lanes read 16 bytes each at one time, are in different banks. `row_bytes` is a multiple of 64.
template <class Int>
[[nodiscard]] constexpr Int panel_odd_rows(Int row_bytes) {
    return kPanelRows / 2 * row_bytes + 64;
}

/// Where row `row` of a panel lies in its slot: behind each other the even rows, then the odd ones.
template <class Int>
[[nodiscard]] constexpr Int panel_row(Int row, Int row_bytes) {
    return row / 2 * row_bytes + row % 2 * panel_odd_rows(row_bytes);
}

/// Bytes of a slot up to the end of the last of so many rows.
template <class Int>
[[nodiscard]] constexpr Int panel_bytes(Int rows, Int row_bytes) {
    const Int last_odd = rows - 1 - rows % 2;
    return (rows > 1 ? panel_row(last_odd, row_bytes) : 0) + row_bytes;
}

/// Bytes from the packed image of such a panel to the next one.
[[nodiscard]] constexpr long long packed_bytes(long long rows, long long row_bytes) {
    return round_up(panel_bytes(rows, row_bytes), 128);
}

/// Bytes from one row to the next in shared memory where 8 lanes read 16 bytes each of two rows at one time: an odd
/// multiple of 64, so that the rows' 64 bytes are in different banks. `row_bytes` is a multiple of 64.
[[nodiscard]] constexpr long long panel_stride(long long row_bytes) {
    return round_up(row_bytes - 64, 128) + 64;
}

/// Values of k in each load of a panel but the last: a chunk for every warp, some times over, so that all pieces are dealt
/// alike. Chunk c of a row belongs to warp c % warps.
[[nodiscard]] constexpr long long panel_piece(long long k, long long warps) {
    const long long pieces = (k + kPieceDepth - 1) / kPieceDepth;
    return pieces == 1 ? k : round_up((k + pieces - 1) / pieces, warps * kChunk);
}

/// Floats of the partial sums of one row of one panel: by warp, then by column. An odd number of warps, real ones or not,
/// keeps the four panels that one warp adds up in different banks.
[[nodiscard]] constexpr long long panel_sums(long long warps) { return (warps | 1) * kPanelRows; }

/// Panels whose partial sums a task of up to `m` rows holds at one time.
[[nodiscard]] constexpr long long panels_at_once(long long m, long long weights, long long warps) {
    const long long most = kPanelSumBytes / (4 * m * weights * panel_sums(warps));
    return most > 1 ? most : 1;
}

/// Bytes from one staged row of a MatMul's left side to the next.
[[nodiscard]] constexpr long long left_row_bytes(long long k, long long element, bool panels) {
    return panels ? panel_stride(k * element) : round_up(k * element, 16);
}

/// How a MatMul reads its operands. Tiles: products of many rows, whose left side is read as it lies in memory, too.
enum class ProductKind { Direct, Rows, Panels, Tiles };

struct MatMulShape {
    long long m, n, k;     ///< of the tile (k: of the region)
    long long left_bytes;  ///< of an element of the staged left side
    long long acc_bytes;   ///< of an accumulator
    long long weights, stats;
    ProductKind kind;
};

/// Bytes of a MatMul task's sums. Rows: by weight, row, column. Direct: partial sums of one chunk of outputs, by warp,
/// weight, output. Panels: partial sums of some panels, by panel, weight, row, warp, column.
[[nodiscard]] constexpr long long matmul_sums(const MatMulShape& s, long long warps) {
    const long long outputs = s.m * s.n;
    if (s.kind == ProductKind::Rows) return s.weights * outputs * s.acc_bytes;
    if (s.kind == ProductKind::Direct) {
        return s.weights * warps * (outputs < kDirectChunk ? outputs : kDirectChunk) * s.acc_bytes;
    }
    const long long panels = (s.n + kPanelRows - 1) / kPanelRows;
    const long long most = panels_at_once(s.m, s.weights, warps);
    return (panels < most ? panels : most) * s.weights * s.m * panel_sums(warps) * s.acc_bytes;
}

/// Shared memory that a MatMul task uses beside the ring, in this order: staged left side, partial sums of the row
/// statistics (by statistic, row, warp), sums.
[[nodiscard]] constexpr long long matmul_scratch(const MatMulShape& s, long long warps) {
    const long long left = s.m * left_row_bytes(s.k, s.left_bytes, s.kind == ProductKind::Panels);
    const long long stats = round_up(s.stats * s.m * warps * s.acc_bytes, 16);
    return left + stats + round_up(matmul_sums(s, warps), 16);
}

// Products of many rows stage blocks of k of both operands in shared memory, in lines of 128 bytes whose 16-byte pieces are
// swizzled in groups of eight lines, as tensor cores read them (PTX ISA, wgmma, "128-byte swizzle mode"). Where k lies
// contiguous in memory a line holds one row's block of k; else it holds as many rows, for one k.
inline constexpr int kLineBytes = 128;
inline constexpr int kLineGroupBytes = 8 * kLineBytes;

/// Shared memory that such a task uses beside the ring: its stages, the first at a multiple of a group of lines.
[[nodiscard]] constexpr long long tiles_scratch(long long rows, long long columns, long long weights,
                                                long long stages) {
    return kLineGroupBytes + stages * (rows + weights * columns) * kLineBytes;
}

// Sums over scores stage the rows' sides of the scores once, and blocks of context positions in several stages, in the same
// lines. A warp takes 16 rows and every `across`-th block.
inline constexpr int kScoredBlock = 64;

struct ScoredShape {
    long long rows;     ///< of a task
    long long scores;   ///< for each pair of a row and a position
    long long depth;    ///< of a score
    long long columns;  ///< of each factor; 0 where there is none
    long long sums;     ///< of each row and column, with a factor each
    long long factors;  ///< that are staged besides the right sides of the scores
    long long stages;
};

/// Registers of a thread that hold fragments: scores, which become weights, and sums.
[[nodiscard]] constexpr long long scored_registers(const ScoredShape& s) {
    const long long scores = s.scores > s.sums ? s.scores : s.sums;
    return scores * kScoredBlock / 2 + s.sums * round_up(s.columns, 8) / 2;
}

/// Warps that share 16 rows.
[[nodiscard]] constexpr long long scored_across(long long rows, long long warps) {
    return warps / (rows / 16);
}

/// One side of the scores: blocks of a line's depth.
[[nodiscard]] constexpr long long scored_side(const ScoredShape& s, long long rows) {
    return s.scores * round_up(s.depth, kScoredBlock) / kScoredBlock * rows * kLineBytes;
}

[[nodiscard]] constexpr long long scored_stage(const ScoredShape& s, long long warps) {
    const long long across = scored_across(s.rows, warps);
    const long long lines = across * round_up(s.columns, kScoredBlock);
    return scored_side(s, across * kScoredBlock) + s.factors * lines * kLineBytes;
}

/// Bytes of all warps' sums, by sum, block of a turn, row and column, with a shift that puts the rows of a fragment into
/// different banks.
[[nodiscard]] constexpr long long scored_sums(const ScoredShape& s, long long warps) {
    return s.sums * scored_across(s.rows, warps) * s.rows * (round_up(s.columns, 8) + 8) * 4;
}

/// The most that weights have of values that all rows of a position share, for one position; more they load for each pair.
inline constexpr int kScoredPositionBytes = 32;

/// Values of the positions of two turns.
[[nodiscard]] constexpr long long scored_positions(long long rows, long long warps) {
    return 2 * scored_across(rows, warps) * kScoredBlock * kScoredPositionBytes;
}

/// Shared memory that such a task uses beside the ring, in this order: the rows' sides, from a multiple of a group of lines
/// on, the stages and the positions' values, where the sums are put in the end.
[[nodiscard]] constexpr long long scored_scratch(const ScoredShape& s, long long warps) {
    const long long stages = s.stages * scored_stage(s, warps) + scored_positions(s.rows, warps);
    const long long sums = scored_sums(s, warps);
    return kLineGroupBytes + scored_side(s, s.rows) + (stages > sums ? stages : sums);
}

/// Results that a task of a reduction of columns has at a time.
inline constexpr int kReduceColumns = 32;

/// Shared memory of a reduction of columns: by share, then by position.
[[nodiscard]] constexpr long long reduce_scratch(long long vector, long long acc_bytes, long long warps) {
    return warps * vector * kReduceColumns * acc_bytes;
}

/// Rows of the context that belong to one split of attention before the next split's turn comes.
inline constexpr int kAttentionBlock = 128;
/// Rows of a block that one warp takes together. Strip t of a split belongs to warp t % warps.
inline constexpr int kAttentionStrip = 16;

/// The first context row of strip `number` of split `split`; strips of a split are in ascending order.
template <class Int>
[[nodiscard]] constexpr Int attention_strip_begin(Int number, Int split, Int splits) {
    constexpr int per_block = kAttentionBlock / kAttentionStrip;
    return (number / per_block * splits + split) * kAttentionBlock + number % per_block * kAttentionStrip;
}

/// Query rows that an attention task computes at one time, on tensor cores or without; `rows` is group * Q of the
/// region.
[[nodiscard]] constexpr long long attention_rows(long long rows, bool tensor) {
    const long long most = tensor ? 8 : 4;
    return rows < most ? rows : most;
}

/// Bytes from one staged query row of attention to the next: F32 elements, or on tensor cores two 2-byte parts of each, with
/// a shift that puts neighbouring rows into different banks.
[[nodiscard]] constexpr long long attention_query_bytes(long long d, bool tensor) {
    return tensor ? d * 4 + 16 : round_up(d * 4, 16);
}

/// Bytes of the staged fresh key, and of the staged fresh value.
[[nodiscard]] constexpr long long attention_fresh_bytes(long long d) { return round_up(d * 4, 16); }

/// Shared memory of an attention task, in this order: staged query rows, the fresh key, the fresh value, and each warp's
/// sums, maximum and weight of each query row.
[[nodiscard]] constexpr long long attention_scratch(long long rows, long long d, long long warps,
                                                    bool tensor) {
    const long long together = attention_rows(rows, tensor);
    return together * attention_query_bytes(d, tensor) + 2 * attention_fresh_bytes(d) +
           round_up(warps * together * (d + 2) * 4, 16);
}

}  // namespace stretto::abi
