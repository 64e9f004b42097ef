// The end of a product of leading integers: marks of elements that it does not certify.
//
// As `certify` of gpu/kernels/triton/multiply.py, the same bits: an element is certified if
//
//   total (1 - 2^-20) >= g_i h_j + h_i (g_j + both h_j)
//
// in float32, with steps h 2^unit and weights g 2^lift of lines, rounded up, and times 2^drop where
// leads are saturated (`below_top`). Marks are zero before; ones are stored here, and then counted.
constexpr float DOWN = 1 - 0x1p-20f, UP = 1 + 0x1p-20f;
constexpr int NORM_BITS = 15;  // of bounds

struct Lines { const s64* step; const double* weight; const s64 *sum, *nonzeros; };

struct Finish {
  u8* marks;
  u64* doubtful;
  Lines rows, columns;
  int N, unit, lift, saturated;
  float both;
};

__device__ __forceinline__ int tile_of(const Finish&, int turn) { return turn; }
__device__ __forceinline__ int sums_of(const Finish&, const Tile&) { return 1; }
__device__ __forceinline__ Slices slices_of(const Work& work, const Finish&, const Tile& tile, int) {
  return own_slices(work, tile);
}

__device__ __forceinline__ float power(int exponent) {  // 2^-100 at least; infinity
  return __int_as_float(min(max(exponent + 127, 27), 255) << 23);
}

struct Bound { float step, weight; };

__device__ __forceinline__ Bound bound_of(const Lines& lines, u64 at, bool real,
                                          const Finish& finish, float both) {
  const s64 step = real ? lines.step[at] : 0;
  const double weight = real ? lines.weight[at] : 0.;
  int drop = 0;
  if (finish.saturated && real)
    drop = max(NORM_BITS - 1 + __clzll(lines.sum[at]) - __clzll(lines.nonzeros[at]), 0);
  const double lifted = __longlong_as_double((s64)(finish.lift + drop + 1023) << 52) * weight;
  const float h = step ? power((int)(step >> 52) - 1023 + finish.unit + drop) : 0.f;
  const float g = weight == 0. ? 0.f : fmaxf(__double2float_rn(lifted), 0x1p-100f) * UP;
  return {h, __fmaf_rn(h, both, g)};
}

// What a consumer knows of its tile's columns, two of them in 16 bytes.
__device__ __forceinline__ Bound* bounds_of_columns(int consumer) {
  __shared__ alignas(16) Bound known[CONSUMERS][TILE_N];
  return known[consumer];
}

struct Target {
  u8* marks;
  u64* doubtful;
  int height, width;  // rows from the consumer's first on, columns from the thread's on
  u64 pitch;
  Bound row[BLOCKS][2];
  const float4* columns;
  // Called while products are in flight.
  __device__ __forceinline__ void find(const Work& work, const Finish& finish, const Tile& tile,
                                       int consumer) {
    const int thread = threadIdx.x & 127, q = threadIdx.x & 3;
    const int first = tile.row + consumer * BLOCKS * 64;
    const u64 N = finish.N;
    const u64 ours = work.left_batch > 1 ? (u64)tile.batch * work.M : 0;
    const u64 theirs = work.right_batch > 1 ? tile.batch * N : 0;
    height = work.M - first, width = finish.N - tile.column - 2 * q, pitch = N;
    doubtful = finish.doubtful;
    marks = finish.marks + ((u64)tile.batch * work.M + first + own_row()) * N + tile.column + 2 * q;
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
      const int at = own_row() + i * 8 + (i >> 1) * 48;
      row[i >> 1][i & 1] = bound_of(finish.rows, ours + first + at, at < height, finish, 0.f);
    }
    Bound* const known = bounds_of_columns(consumer);
    columns = (const float4*)known + q;
    warpgroup_sync(consumer);  // nobody needs the last tile's any more
#pragma unroll
    for (int at = thread; at < TILE_N; at += 128)
      known[at] = bound_of(finish.columns, theirs + tile.column + at, tile.column + at < finish.N,
                           finish, finish.both);
    warpgroup_sync(consumer);
  }
  __device__ __forceinline__ void between(int (&)[BLOCKS][TILE_N / 2], int, int) {}
  __device__ __forceinline__ void store(const int (&c)[TILE_N / 2], int block) const {
    u32 many = 0;
#pragma unroll
    for (int group = 0; group < TILE_N / 64; group++) {
      u32 open = 0;
#pragma unroll
      for (int i = 0; i < 32; i++) {
        const float4 two = columns[group * 32 + (i >> 2) * 4];
        const float column = i & 1 ? two.z : two.x, u = i & 1 ? two.w : two.y;
        const Bound& own = row[block][i >> 1 & 1];
        const float wanted = __fmaf_rn(own.weight, column, __fmul_rn(own.step, u));
        const bool certified = __fmul_rn((float)c[group * 32 + i], DOWN) >= wanted;
        open |= certified ? 0 : 1u << i;
      }
      for (; open; open &= open - 1) {
        const int i = __ffs(open) - 1;
        const int down = block * 64 + (i >> 1 & 1) * 8, across = group * 64 + (i >> 2) * 8 + (i & 1);
        if (down + own_row() < height && across < width) marks[down * pitch + across] = 1, many++;
      }
    }
    __syncwarp();
    many = __reduce_add_sync(~0u, many);
    if (many > 0 && (threadIdx.x & 31) == 0) atomicAdd(doubtful, many);
  }
};
