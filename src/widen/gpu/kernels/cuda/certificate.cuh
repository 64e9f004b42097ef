// The end of a product of leading integers: marks of elements that it does not certify.
//
// As `certify` of gpu/kernels/triton/multiply.py, the same bits: an element is certified if
//
//   total (1 - 2^-20) >= v_i column_j + row_i u_j
//
// in float32, where a row has row = [inexact] h and v = weight h, h = 2^-(level + shift/2) rounded
// up, and a column the like with `both` in its weight. Marks are zero before; ones are stored here.
//
//   PAIRS       1: integers 128 x + x' in two planes; the sums of x y, then of x y' and x' y
constexpr float DOWN = 1 - 0x1p-20f, UP = 1 + 0x1p-20f;

struct Lines { const s64 *level, *flags, *weight; };

struct Finish {
  u8* marks;
  Lines rows, columns;
  int N, shift;
  int inexact;  // the flag
  float both;
};

__device__ __forceinline__ int tile_of(const Finish&, int turn) { return turn; }
__device__ __forceinline__ int sums_of(const Finish&, const Tile&) { return PAIRS ? 3 : 1; }
__device__ __forceinline__ Slices slices_of(const Work& work, const Finish&, const Tile& tile,
                                            int sum) {
  const Slices own = own_slices(work, tile);
  return {own.left + (sum == 2 ? work.left_batch : 0), own.right + (sum == 1 ? work.right_batch : 0)};
}

__device__ __forceinline__ float power(int exponent) {  // 2^-100 at least; infinity
  return __int_as_float(min(max(exponent + 127, 27), 255) << 23);
}

struct Bound { float inexact, weight; };

__device__ __forceinline__ Bound bound_of(const Lines& lines, u64 at, bool real, int shift,
                                          float both, int flag) {
  const int level = real ? (int)lines.level[at] : 0;
  const bool inexact = real && (lines.flags[at] & flag);
  const float weight = real ? (float)lines.weight[at] : 0.f;
  const float h = power(-level - shift) * UP;
  return {(inexact ? 1.f : 0.f) * h, (weight + (inexact ? both : 0.f)) * h};
}

// What a consumer knows of its tile's columns, two of them in 16 bytes.
__device__ __forceinline__ Bound* bounds_of_columns(int consumer) {
  __shared__ alignas(16) Bound known[CONSUMERS][TILE_N];
  return known[consumer];
}

struct Target {
  u8* marks;
  int height, width;  // rows from the consumer's first on, columns from the thread's on
  u64 pitch;
  Bound row[BLOCKS][2];
  const float4* columns;
#if PAIRS
  float sums[BLOCKS][TILE_N / 2];
#endif
  // Called while products are in flight.
  __device__ __forceinline__ void find(const Work& work, const Finish& finish, const Tile& tile,
                                       int consumer) {
    const int thread = threadIdx.x & 127, q = threadIdx.x & 3;
    const int first = tile.row + consumer * BLOCKS * 64, half = finish.shift / 2;
    const u64 N = finish.N;
    const u64 ours = work.left_batch > 1 ? (u64)tile.batch * work.M : 0;
    const u64 theirs = work.right_batch > 1 ? tile.batch * N : 0;
    height = work.M - first, width = finish.N - tile.column - 2 * q, pitch = N;
    marks = finish.marks + ((u64)tile.batch * work.M + first + own_row()) * N + tile.column + 2 * q;
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
      const int at = own_row() + i * 8 + (i >> 1) * 48;
      row[i >> 1][i & 1] = bound_of(finish.rows, ours + first + at, at < height, half, 0.f,
                                    finish.inexact);
    }
    Bound* const known = bounds_of_columns(consumer);
    columns = (const float4*)known + q;
    warpgroup_sync(consumer);  // nobody needs the last tile's any more
#pragma unroll
    for (int at = thread; at < TILE_N; at += 128)
      known[at] = bound_of(finish.columns, theirs + tile.column + at, tile.column + at < finish.N,
                           finish.shift - half, finish.both, finish.inexact);
    warpgroup_sync(consumer);
  }
  __device__ __forceinline__ void between(int (&c)[BLOCKS][TILE_N / 2], int step, int depth) {
#if PAIRS
    if (step == depth - 1)
#pragma unroll
      for (int block = 0; block < BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i++) sums[block][i] = (float)c[block][i] * 16384.f;
#endif
  }
  __device__ __forceinline__ float total(int c, int block, int i) const {
#if PAIRS
    return __fmaf_rn((float)c, 128.f, sums[block][i]);
#else
    return (float)c;
#endif
  }
  __device__ __forceinline__ void store(const int (&c)[TILE_N / 2], int block) const {
#pragma unroll
    for (int group = 0; group < TILE_N / 64; group++) {
      u32 open = 0;
#pragma unroll
      for (int i = 0; i < 32; i++) {
        const float4 two = columns[group * 32 + (i >> 2) * 4];
        const float column = i & 1 ? two.z : two.x, u = i & 1 ? two.w : two.y;
        const Bound& own = row[block][i >> 1 & 1];
        const float wanted = __fmaf_rn(own.weight, column, __fmul_rn(own.inexact, u));
        const int at = group * 32 + i;
        const bool certified = __fmul_rn(total(c[at], block, at), DOWN) >= wanted;
        open |= certified ? 0 : 1u << i;
      }
      for (; open; open &= open - 1) {
        const int i = __ffs(open) - 1;
        const int down = block * 64 + (i >> 1 & 1) * 8, across = group * 64 + (i >> 2) * 8 + (i & 1);
        if (down + own_row() < height && across < width) marks[down * pitch + across] = 1;
      }
    }
  }
};
