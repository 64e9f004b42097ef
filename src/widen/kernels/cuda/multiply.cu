// int8 planes times int8 planes on Hopper's tensor cores, all planes and batches in one launch.
//
//   out[z, b, i, j] = (w[z] * sum_h left[z, b, i, h] * right[z, b, j, h]) mod p[z]    in [0, p[z])
//
// left: planes x left_batch x M x K bytes, right: planes x right_batch x N x K, both K-major; out:
// one byte an element. With SUMS instead
//
//   out[z, i, j] = sum_{q < pairs[z]} sum_h left[l[z] + q, i, h] * right[r[z] - q, j, h]
//
// as int32, which must hold it: products of slices of equal weight meet in the accumulator.
// The tensor maps know the true M, N and K: what lies beyond reads as zero
// (PERMUTED: right has rows up to a multiple of 64, which give columns that out leaves undefined).
//
// One block a multiprocessor, resident for the whole launch. A producer thread fills a ring of
// stages by TMA; each consumer warpgroup multiplies 64 * BLOCKS rows of a tile by all its columns.
// Two blocks of a cluster share one operand's tile: each brings half of it for both.
// Measured variants: bench/results/multiply-h200.md.
//
// Compiled by NVRTC for sm_90a (multiply.py), one binary for each row of tiles.py, given as macros:
//   CONSUMERS   consumer warpgroups          BLOCKS      blocks of 64 rows each of them multiplies
//   TILE_N      columns of a tile            STAGES      stages of 128 bytes of K
//   CLUSTER     blocks of a cluster, 1 or 2  SHARE_LEFT  1: they share left's tile, side by side
//   PERMUTED    1: TMA reorders right's rows             0: they share right's, one above the other
//   LONG        1: sums beyond int32         SUMS        1: int32 sums of pairs of slices
//   CONSUMER_REGISTERS, PRODUCER_REGISTERS   what a thread of each kind holds
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int TILE_M = 64 * BLOCKS * CONSUMERS, TILE_K = 128, MAX_PLANES = 64;
constexpr int LEFT_BYTES = TILE_M * TILE_K, RIGHT_BYTES = TILE_N * TILE_K;
constexpr int STAGE_BYTES = LEFT_BYTES + RIGHT_BYTES;
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int CLUSTER_M = SHARE_LEFT ? 1 : CLUSTER, CLUSTER_N = SHARE_LEFT ? CLUSTER : 1;
constexpr bool LEFT_SHARED = CLUSTER > 1 && SHARE_LEFT, RIGHT_SHARED = CLUSTER > 1 && !SHARE_LEFT;
// 1023 steps of products up to 2^14 in magnitude, and a residue: 1023 * 2^21 + 255 < 2^31.
[[maybe_unused]] constexpr int LONGEST = 1023;

struct alignas(64) TensorMap { u64 opaque[16]; };

// How to reduce a sum modulo p: multiply.py derives the numbers and proves that they suffice.
struct Recipe { u32 weights, offset; };
#if SUMS
struct Plane { int left, right, pairs, unused[3]; };
#else
struct Plane { Recipe last, folding; float inverse; u32 minus_modulus; };
#endif

struct Divisor {  // n / value for 0 <= n < 2^31, as (n + (n * factor >> 32)) >> shift
  u32 value, factor, shift;
  __device__ u32 divide(u32 n) const { return (n + __umulhi(n, factor)) >> shift; }
};

struct Job {
  TensorMap left, right;
  u8* out;
  int M, K, pitch;               // pitch: bytes from row to row of out
  int batch, left_batch, right_batch;
  int tiles, rows, group;        // of clusters: all, rows of them, rows walked together
  Divisor slice, band, height, last_height, batches;  // clusters of a slice and of a group, rows
                                                      // of a group and of the last one; batch
  Plane plane[MAX_PLANES];
};

// ── barriers and copies ───────────────────────────────────────────────────────────────────────

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void barrier_init(u64* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               ::"r"(shared_address(barrier)), "r"(arrivals));
}
__device__ void barrier_expect(u64* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ void barrier_arrive(u64* barrier, u32 block) {  // in any block of the cluster
  asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
               " mbarrier.arrive.shared::cluster.b64 _, [there];}"
               ::"r"(shared_address(barrier)), "r"(block) : "memory");
}
__device__ void barrier_wait(u64* barrier, u32 phase) {
  u32 done;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(phase) : "memory");
  } while (!done);
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// A box of 128 bytes of K by some rows of a slice; `shared` by the cluster or for this block alone.
template <bool shared>
__device__ void load(u32 to, const TensorMap* map, u64* done, int k, int row, int slice) {
  const u32 barrier = shared_address(done);
  const u16 blocks = (1 << CLUSTER) - 1;
  if (shared)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(k), "r"(row), "r"(slice), "h"(blocks)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(k), "r"(row), "r"(slice) : "memory");
}
// The same of a map that sees 64 rows as 8 x 8 and transposes them: row 8 i + j becomes 8 j + i.
template <bool shared>
__device__ void load_permuted(u32 to, const TensorMap* map, u64* done, int k, int row, int slice) {
  const u32 barrier = shared_address(done);
  const u16 blocks = (1 << CLUSTER) - 1;
  if (shared)
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %6, %6, %4, %5}], [%2], %7;"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(k), "r"(row / 64), "r"(slice), "r"(0),
                   "h"(blocks) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %6, %6, %4, %5}], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(k), "r"(row / 64), "r"(slice), "r"(0)
                 : "memory");
}

// ── products ──────────────────────────────────────────────────────────────────────────────────

__device__ u64 descriptor(u32 address) {  // K-major rows of 128 bytes, swizzled
  return (u64)((address & 0x3FFFF) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// m64nNk32: a thread holds N / 2 sums. The operands' names are spelled out as the assembler wants.
#define R4(i) "+r"(c[i]), "+r"(c[i + 1]), "+r"(c[i + 2]), "+r"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R32(i) R16(i), R16(i + 16)
#define NAMES_32 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15" \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_64 NAMES_32 \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_96 NAMES_64 \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES_128 NAMES_96 \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define MULTIPLY_ADD(columns, names, left_name, right_name, flag_name, ...)                        \
  __device__ __forceinline__ void multiply_add(int (&c)[columns / 2], u64 left, u64 right,         \
                                               int accumulate) {                                   \
    asm volatile("{.reg .pred p; setp.ne.b32 p, " flag_name ", 0;"                                 \
                 " wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32.s8.s8 {" names "}, "       \
                 left_name ", " right_name ", p;}"                                                 \
                 : __VA_ARGS__ : "l"(left), "l"(right), "r"(accumulate));                          \
  }
#if TILE_N == 64
MULTIPLY_ADD(64, NAMES_32, "%32", "%33", "%34", R32(0))
#elif TILE_N == 128
MULTIPLY_ADD(128, NAMES_64, "%64", "%65", "%66", R32(0), R32(32))
#elif TILE_N == 192
MULTIPLY_ADD(192, NAMES_96, "%96", "%97", "%98", R32(0), R32(32), R32(64))
#else
MULTIPLY_ADD(256, NAMES_128, "%128", "%129", "%130", R32(0), R32(32), R32(64), R32(96))
#endif

#if !SUMS
// ── residues ──────────────────────────────────────────────────────────────────────────────────

// (sum * w) mod p in the low byte, whatever in the others, for every 32-bit sum: four instructions.
// The dot product of sum's bytes gives an integer x = sum * w (mod p), 2^23 <= x < 2^24, as the
// bits of that float; its quotient by p, rounded down, likewise.
struct Reduction {
  u32 weights, offset, minus_modulus;
  float inverse;
  __device__ __forceinline__ void read(const Recipe& recipe, const Plane& plane) {
    weights = recipe.weights, offset = recipe.offset;
    minus_modulus = plane.minus_modulus, inverse = plane.inverse;
  }
  __device__ __forceinline__ u32 of(int sum) const {
    u32 x;
    asm("dp4a.u32.s32 %0, %1, %2, %3;"
        : "=r"(x) : "r"(sum ^ 0x80000000), "r"(weights), "r"(offset));
    const float quotient = __fmaf_rd(__uint_as_float(x), inverse, 8388608.f);
    return __float_as_uint(quotient) * minus_modulus + x;
  }
  __device__ __forceinline__ u32 of_four(int a, int b, int c, int d) const {  // in one word
    return __byte_perm(__byte_perm(of(a), of(b), 0x40), __byte_perm(of(c), of(d), 0x40), 0x5410);
  }
};

// In the accumulators' order a thread holds columns 2 q and 2 q + 1 of every eight, q being its
// place in a quad, of two rows eight apart. Bytes are stored BYTES at a time, so a thread must have
// neighbours. Where TMA has transposed 8 x 8 columns, it holds columns 16 q to 16 q + 15 of 64.
// Else the quad transposes its pairs of four times eight columns: 0.98 of the speed.
constexpr int BYTES = PERMUTED ? 16 : 8;

// Stores that the assembler does not turn into branches, across which it would not schedule.
__device__ __forceinline__ void store_if(bool wanted, u8* to, const u32 (&word)[4]) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v4.b32 [%1], {%2, %3, %4, %5};}"
               ::"r"((int)wanted), "l"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}
__device__ __forceinline__ void store_if(bool wanted, u8* to, const u32 (&word)[2]) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b32 [%1], {%2, %3};}"
               ::"r"((int)wanted), "l"(to), "r"(word[0]), "r"(word[1]) : "memory");
}

// One of the two rows, to bytes from `to` on, where out has so many columns more.
__device__ __forceinline__ void store_row(const int (&c)[TILE_N / 2], int half, u8* to, int columns,
                                          const Reduction& reduction) {
#if PERMUTED
#pragma unroll
  for (int group = 0; group < TILE_N / 64; group++) {
    u32 word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int first = group * 32 + (i & 1) * 16 + half * 2 + (i >> 1);
      word[i] = reduction.of_four(c[first], c[first + 4], c[first + 8], c[first + 12]);
    }
    store_if(group * 64 < columns, to + group * 64, word);
  }
#else
  const int q = threadIdx.x & 3;
  const u32 mine = q & 1 ? 0x7632 : 0x5410, theirs = q & 1 ? 0x5410 : 0x7632;
  // Having pairs (own, of q^2) and (of q^1, of q^3), take those of quad members 0, 1 and of 2, 3.
  const u32 low = q == 0 ? 0x5410 : q == 1 ? 0x1054 : q == 2 ? 0x7632 : 0x3276;
  const u32 high = q == 0 ? 0x7632 : q == 1 ? 0x3276 : q == 2 ? 0x5410 : 0x1054;
#pragma unroll
  for (int group = 0; group < TILE_N / 32; group++) {
    const int first = group * 16 + half * 2;
    const u32 a = reduction.of_four(c[first], c[first + 1], c[first + 4], c[first + 5]);
    const u32 b = reduction.of_four(c[first + 8], c[first + 9], c[first + 12], c[first + 13]);
    const u32 kept = q & 2 ? b : a, got = __shfl_xor_sync(~0u, q & 2 ? a : b, 2);
    const u32 ours = __byte_perm(kept, got, mine);
    const u32 others = __shfl_xor_sync(~0u, __byte_perm(kept, got, theirs), 1);
    const u32 word[2] = {__byte_perm(ours, others, low), __byte_perm(ours, others, high)};
    store_if(group * 32 < columns, to + group * 32, word);
  }
#endif
}

__device__ __forceinline__ void fold(int (&c)[TILE_N / 2], const Plane& plane) {
  Reduction reduction;
  reduction.read(plane.folding, plane);
#pragma unroll
  for (int i = 0; i < TILE_N / 2; i++) c[i] = reduction.of(c[i]) & 0xFF;
}

#else
// ── sums ──────────────────────────────────────────────────────────────────────────────────────

// In the accumulators' order: a quad's pairs of columns are the 32 bytes of a sector.
constexpr int BYTES = 8;

__device__ __forceinline__ void store_row(const int (&c)[TILE_N / 2], int half, u8* to, int bytes) {
#pragma unroll
  for (int group = 0; group < TILE_N / 8; group++)
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b32 [%1], {%2, %3};}"
                 ::"r"((int)(group * 32 < bytes)), "l"(to + group * 32),
                   "r"(c[group * 4 + half * 2]), "r"(c[group * 4 + half * 2 + 1]) : "memory");
}
#endif

// ── the kernel ────────────────────────────────────────────────────────────────────────────────

struct Tile { int plane, batch, row, column; };

// The clusters' tiles: groups of rows, column by column, so that operands stay in L2.
__device__ __forceinline__ Tile tile_at(const Job& job, u32 index, u32 rank) {
  const u32 slice = job.slice.divide(index), inside = index - slice * job.slice.value;
  const u32 band = job.band.divide(inside), rest = inside - band * job.band.value;
  const u32 first = band * job.group;
  const Divisor& height = first + job.group <= job.rows ? job.height : job.last_height;
  const u32 column = height.divide(rest), row = first + rest - column * height.value;
  Tile tile;
  tile.plane = job.batches.divide(slice), tile.batch = slice - tile.plane * job.batch;
  tile.row = (row * CLUSTER_M + (SHARE_LEFT ? 0 : rank)) * TILE_M;
  tile.column = (column * CLUSTER_N + (SHARE_LEFT ? rank : 0)) * TILE_N;
  return tile;
}

__device__ __forceinline__ int steps_of(const Job& job, const Tile& tile) {
  const int steps = (job.K + TILE_K - 1) / TILE_K;
#if SUMS
  return steps * job.plane[tile.plane].pairs;
#else
  return steps;
#endif
}

struct Ring {  // which stage comes next, and the parity its barriers wait for
  int stage = 0;
  u32 phase = 0;
  __device__ void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

__device__ __forceinline__ void produce(const Job& job, u32 shared, u64* full, u64* empty,
                                        u32 rank) {
  const int left_part = LEFT_SHARED ? rank * (TILE_M / CLUSTER) : 0;  // the rows this block brings
  const int right_part = RIGHT_SHARED ? rank * (TILE_N / CLUSTER) : 0;
  Ring ring;
  for (int t = blockIdx.x / CLUSTER; t < job.tiles; t += gridDim.x / CLUSTER) {
    const Tile tile = tile_at(job, t, rank);
    const int depth = steps_of(job, tile);
#if SUMS
    int left_slice = job.plane[tile.plane].left, right_slice = job.plane[tile.plane].right;
#else
    const int left_slice = tile.plane * job.left_batch + (job.left_batch > 1 ? tile.batch : 0);
    const int right_slice = tile.plane * job.right_batch + (job.right_batch > 1 ? tile.batch : 0);
#endif
    for (int step = 0, k = 0; step < depth; step++, k += TILE_K) {
#if SUMS
      if (k >= job.K) k = 0, left_slice++, right_slice--;
#endif
      u64* const done = &full[ring.stage];
      const u32 left = shared + ring.stage * STAGE_BYTES, right = left + LEFT_BYTES;
      barrier_wait(&empty[ring.stage], ring.phase ^ 1);
      barrier_expect(done, STAGE_BYTES);
      load<LEFT_SHARED>(left + left_part * TILE_K, &job.left, done, k, tile.row + left_part,
                        left_slice);
#if PERMUTED
      load_permuted<RIGHT_SHARED>(right + right_part * TILE_K, &job.right, done, k,
                                  tile.column + right_part, right_slice);
#else
      load<RIGHT_SHARED>(right + right_part * TILE_K, &job.right, done, k, tile.column + right_part,
                         right_slice);
#endif
      ring.advance();
    }
  }
}

// Multiply one stage into c, BLOCKS groups of products in flight when it returns.
__device__ __forceinline__ void issue(int (&c)[BLOCKS][TILE_N / 2], u32 left, u32 right, int step) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
    for (int k = 0; k < TILE_K; k += 32)
      multiply_add(c[block], descriptor(left + block * 64 * TILE_K) + (k >> 4),
                   descriptor(right) + (k >> 4), (step | k) != 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
}
template <int in_flight> __device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(in_flight) : "memory");
}

__device__ __forceinline__ int own_row() {  // the thread's first of 64
  return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7);
}

struct Target {  // where a thread's sums go
  u8* out;
  int height, columns;  // rows of out from the consumer's first on, bytes from the thread's on
  int depth;
#if !SUMS
  Reduction reduction;
  const Plane* plane;
#endif
  // Called while products are in flight: between tiles, this took 1100 clocks.
  __device__ __forceinline__ void find(const Job& job, const Tile& tile, int consumer) {
    const int row = tile.row + consumer * BLOCKS * 64;
    const int column = tile.column * (SUMS ? 4 : 1) + (threadIdx.x & 3) * BYTES;
    const u64 line = (u64)(tile.plane * job.batch + tile.batch) * job.M + row + own_row();
    out = job.out + line * job.pitch + column;
    height = job.M - row, columns = job.pitch - column;
    depth = steps_of(job, tile);
    asm volatile("" : "+l"(out), "+r"(height), "+r"(columns), "+r"(depth));
#if !SUMS
    plane = &job.plane[tile.plane];
    reduction.read(plane->last, *plane);
    asm volatile("" : "+r"(reduction.weights), "+r"(reduction.offset),
                 "+r"(reduction.minus_modulus), "+f"(reduction.inverse));
#endif
  }
  __device__ __forceinline__ void store(const int (&c)[TILE_N / 2], int block, int pitch) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int down = block * 64 + half * 8;
      const int room = down + own_row() < height ? columns : 0;
#if SUMS
      store_row(c, half, out + (u64)pitch * down, room);
#else
      store_row(c, half, out + (u64)pitch * down, room, reduction);
#endif
    }
  }
};

__device__ __forceinline__ void consume(const Job& job, u32 shared, u64* full, u64* empty,
                                        u32 rank) {
  const int consumer = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1, thread = threadIdx.x & 127;
  const u32 rows_at = consumer * BLOCKS * 64 * TILE_K;
  Ring ring;
  int c[BLOCKS][TILE_N / 2];
  for (int t = blockIdx.x / CLUSTER; t < job.tiles; t += gridDim.x / CLUSTER) {
    Target target;
    for (int step = 0;; step++) {
      const u32 stage = shared + ring.stage * STAGE_BYTES;
      barrier_wait(&full[ring.stage], ring.phase);
      issue(c, stage + rows_at, stage + LEFT_BYTES, step);
      if (step == 0) target.find(job, tile_at(job, t, rank), consumer);
      if (step == target.depth - 1) break;
      await_products<0>();
      if (thread < CLUSTER) barrier_arrive(&empty[ring.stage], thread);
      ring.advance();
#if LONG
      if (step % LONGEST == LONGEST - 1)
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) fold(c[block], *target.plane);
#endif
    }
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
      if (block < BLOCKS - 1) {
        await_products<1>();
      } else {
        await_products<0>();
        if (thread < CLUSTER) barrier_arrive(&empty[ring.stage], thread);
        ring.advance();
      }
      if (block * 64 < target.height)  // a branch also lest the next block be waited for here
        target.store(c[block], block, job.pitch);
    }
  }
}

extern "C" __global__ __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
void multiply(const __grid_constant__ Job job) {
  extern __shared__ u8 raw[];
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
  const u32 shared = (shared_address(raw) + 1023) & ~1023u;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], CONSUMERS * CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  cluster_sync();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
    if (threadIdx.x == 0) produce(job, shared, full, empty, rank);
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
    consume(job, shared, full, empty, rank);
  }
  cluster_sync();  // no block leaves while the other may still write to its barriers
}
