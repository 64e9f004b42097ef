// Which tiles there are, and in which order blocks take them.
constexpr int TILE_M = 64 * BLOCKS * CONSUMERS, TILE_K = 128;
constexpr int CLUSTER_M = SHARE_LEFT ? 1 : CLUSTER, CLUSTER_N = SHARE_LEFT ? CLUSTER : 1;

struct Divisor {  // n / value for 0 <= n < 2^31, as (n + (n * factor >> 32)) >> shift
  u32 value, factor, shift;
  __device__ u32 divide(u32 n) const { return (n + __umulhi(n, factor)) >> shift; }
};

struct Work {
  TensorMap left, right;
  int M, K;                      // rows of the result, length of the sums
  int batch, left_batch, right_batch;
  int tiles, rows, group;        // of clusters: all, rows of them, rows walked together
  Divisor slice, band, height, last_height, batches;  // clusters of a slice and of a group, rows
                                                      // of a group and of the last one; batch
};
static_assert(sizeof(Work) == 384, "as launcher.py has it");

struct Tile { int plane, batch, row, column; };

struct Slices { int left, right; };  // planes of a batch

__device__ __forceinline__ Slices own_slices(const Work& work, const Tile& tile) {
  return {tile.plane * work.left_batch + (work.left_batch > 1 ? tile.batch : 0),
          tile.plane * work.right_batch + (work.right_batch > 1 ? tile.batch : 0)};
}

// The clusters' tiles: groups of rows, column by column, so that operands stay in L2.
__device__ __forceinline__ Tile tile_at(const Work& work, u32 index, u32 rank) {
  const u32 slice = work.slice.divide(index), inside = index - slice * work.slice.value;
  const u32 band = work.band.divide(inside), rest = inside - band * work.band.value;
  const u32 first = band * work.group;
  const Divisor& height = first + work.group <= work.rows ? work.height : work.last_height;
  const u32 column = height.divide(rest), row = first + rest - column * height.value;
  Tile tile;
  tile.plane = work.batches.divide(slice), tile.batch = slice - tile.plane * work.batch;
  tile.row = (row * CLUSTER_M + (SHARE_LEFT ? 0 : rank)) * TILE_M;
  tile.column = (column * CLUSTER_N + (SHARE_LEFT ? rank : 0)) * TILE_N;
  return tile;
}
