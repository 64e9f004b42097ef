// The end of sums of products of slices: int32, which must hold them.
//
//   out[z, i, j] = sum_{q < pairs[z]} sum_h left[l[z] + q, i, h] * right[r[z] - q, j, h]
//
// Products of slices of equal weight meet in the accumulators; there is one batch.
constexpr int MAX_SUMS = 64;

struct Sum { int left, right, pairs; };

struct Finish {
  u8* out;
  int pitch;  // bytes from row to row of out
  Sum sum[MAX_SUMS];
};

__device__ __forceinline__ int pairs_of(const Finish& finish, const Tile& tile) {
  return finish.sum[tile.plane].pairs;
}
__device__ __forceinline__ Pair pair_at(const Work&, const Finish& finish, const Tile& tile,
                                        int pair) {
  const Sum& sum = finish.sum[tile.plane];
  return {sum.left + pair, sum.right - pair};
}

struct Target {  // where a thread's sums go
  u8* out;
  int height, width;  // rows of out from the consumer's first on, bytes from the thread's on
  int pitch;
  // Called while products are in flight.
  __device__ __forceinline__ void find(const Work& work, const Finish& finish, const Tile& tile,
                                       int consumer) {
    const int row = tile.row + consumer * BLOCKS * 64;
    const int at = tile.column * 4 + (threadIdx.x & 3) * 8;
    pitch = finish.pitch;
    out = finish.out + ((u64)tile.plane * work.M + row + own_row()) * pitch + at;
    height = work.M - row, width = pitch - at;
    asm volatile("" : "+l"(out), "+r"(height), "+r"(width));
  }
  __device__ __forceinline__ void between(int (&)[BLOCKS][TILE_N / 2], int, int) {}
  // In the accumulators' order: a quad's pairs of columns are the 32 bytes of a sector.
  __device__ __forceinline__ void store(const int (&c)[TILE_N / 2], int block) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int down = block * 64 + half * 8;
      const int room = down + own_row() < height ? width : 0;
      u8* const to = out + (u64)pitch * down;
#pragma unroll
      for (int group = 0; group < TILE_N / 8; group++)
        asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b32 [%1], {%2, %3};}"
                     ::"r"((int)(group * 32 < room)), "l"(to + group * 32),
                       "r"(c[group * 4 + half * 2]), "r"(c[group * 4 + half * 2 + 1]) : "memory");
    }
  }
};
