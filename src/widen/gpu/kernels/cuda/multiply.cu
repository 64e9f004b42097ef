// int8 planes times int8 planes on Hopper's tensor cores, all planes and batches in one launch.
//
//   sums[z, b, i, j] = sum_h left[z, b, i, h] * right[z, b, j, h]
//
// left: planes x left_batch x M x K bytes, right: planes x right_batch x N x K, both K-major. What
// becomes of the sums is another file's matter, the end (residues.cuh, certificate.cuh, or one that
// lies elsewhere), as are the slices (planes of a batch) that a tile multiplies. The tensor maps know
// the true M, N and the rows' length: what lies beyond reads as zero (PERMUTED: right has rows up to
// a multiple of 64, which give columns that are left undefined).
//
// One block a multiprocessor, resident for the whole launch. A producer thread fills a ring of
// stages by TMA; each consumer warpgroup multiplies 64 * BLOCKS rows of a tile by all its columns.
// Two blocks of a cluster share one operand's tile: each brings half of it for both.
// Measured variants: bench/results/multiply-h200.md.
//
// Compiled by NVRTC for sm_90a (launcher.py), one binary for each row of tiles.py, given as macros:
//   CONSUMERS   consumer warpgroups          BLOCKS      blocks of 64 rows each of them multiplies
//   TILE_N      columns of a tile            STAGES      stages of 128 bytes of K
//   CLUSTER     blocks of a cluster, 1 or 2  SHARE_LEFT  1: they share left's tile, side by side
//   PERMUTED, LONG, WIDE   of the ends                   0: they share right's, one above the other
//   CONSUMER_REGISTERS, PRODUCER_REGISTERS   what a thread of each kind holds
#include "hopper.cuh"
#include "walk.cuh"
#include "end.cuh"  // under this name, the end that is launched (compiler.py)

constexpr int LEFT_BYTES = TILE_M * TILE_K, RIGHT_BYTES = TILE_N * TILE_K;
constexpr int STAGE_BYTES = LEFT_BYTES + RIGHT_BYTES;
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr bool LEFT_SHARED = CLUSTER > 1 && SHARE_LEFT, RIGHT_SHARED = CLUSTER > 1 && !SHARE_LEFT;

struct Job {
  Work work;
  Finish finish;
};

struct Ring {  // which stage comes next, and the parity its barriers wait for
  int stage = 0;
  u32 phase = 0;
  __device__ void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

__device__ __forceinline__ void produce(const Job& job, u32 shared, u64* full, u64* empty, u32 rank,
                                        int depth) {
  const int left_part = LEFT_SHARED ? rank * (TILE_M / CLUSTER) : 0;  // the rows this block brings
  const int right_part = RIGHT_SHARED ? rank * (TILE_N / CLUSTER) : 0;
  const Work& work = job.work;
  Ring ring;
  for (int turn = blockIdx.x / CLUSTER, t; (t = tile_of(job.finish, turn)) < work.tiles;
       turn += gridDim.x / CLUSTER) {
    const Tile tile = tile_at(work, t, rank);
    const int sums = sums_of(job.finish, tile);
    for (int sum = 0; sum < sums; sum++) {
      const Slices slices = slices_of(work, job.finish, tile, sum);
      for (int step = 0; step < depth; step++) {
        u64* const done = &full[ring.stage];
        const u32 left = shared + ring.stage * STAGE_BYTES, right = left + LEFT_BYTES;
        const int k = step * TILE_K;
        barrier_wait(&empty[ring.stage], ring.phase ^ 1);
        barrier_expect(done, STAGE_BYTES);
        load<LEFT_SHARED>(left + left_part * TILE_K, &work.left, done, k, tile.row + left_part,
                          slices.left);
#if PERMUTED
        load_permuted<RIGHT_SHARED>(right + right_part * TILE_K, &work.right, done, k,
                                    tile.column + right_part, slices.right);
#else
        load<RIGHT_SHARED>(right + right_part * TILE_K, &work.right, done, k,
                           tile.column + right_part, slices.right);
#endif
        ring.advance();
      }
    }
  }
}

// Multiply one stage, and add it to c or not; BLOCKS groups of products in flight when it returns.
__device__ __forceinline__ void issue(int (&c)[BLOCKS][TILE_N / 2], u32 left, u32 right, bool add) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
    for (int k = 0; k < TILE_K; k += 32)
      multiply_add(c[block], descriptor(left + block * 64 * TILE_K) + (k >> 4),
                   descriptor(right) + (k >> 4), add || k != 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
}

__device__ __forceinline__ void consume(const Job& job, u32 shared, u64* full, u64* empty, u32 rank,
                                        int depth) {
  const int consumer = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1, thread = threadIdx.x & 127;
  const u32 rows_at = consumer * BLOCKS * 64 * TILE_K;
  const Work& work = job.work;
  Ring ring;
  int c[BLOCKS][TILE_N / 2];
  for (int turn = blockIdx.x / CLUSTER, t; (t = tile_of(job.finish, turn)) < work.tiles;
       turn += gridDim.x / CLUSTER) {
    Target target;
    int last;
    for (int step = 0;; step++) {
      const u32 stage = shared + ring.stage * STAGE_BYTES;
      barrier_wait(&full[ring.stage], ring.phase);
      issue(c, stage + rows_at, stage + LEFT_BYTES, step != 0);
      if (step == 0) {
        const Tile tile = tile_at(work, t, rank);
        target.find(work, job.finish, tile, consumer);
        last = sums_of(job.finish, tile) * depth - 1;
      }
      if (step == last) break;
      await_products<0>();
      if (thread < CLUSTER) barrier_arrive(&empty[ring.stage], thread);
      ring.advance();
      target.between(c, step, depth);
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
        target.store(c[block], block);
    }
  }
}

extern "C" __global__ __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
void multiply(const __grid_constant__ Job job) {
  extern __shared__ u8 raw[];
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
  const u32 shared = (shared_address(raw) + 1023) & ~1023u;
  const int depth = (job.work.K + TILE_K - 1) / TILE_K;
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
    if (threadIdx.x == 0) produce(job, shared, full, empty, rank, depth);
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
    consume(job, shared, full, empty, rank, depth);
  }
  cluster_sync();  // no block leaves while the other may still write to its barriers
}
