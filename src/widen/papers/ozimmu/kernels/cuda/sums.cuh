// The end that leaves sums as they are: int32, of several pairs of slices.
//
//   out[z, i, j] = sum_{q < count[z]} sum_h left[l[z] + q, i, h] * right[r[z] - q, j, h]
//
// which int32 must hold: products of slices of equal weight meet in the accumulators.
constexpr int MAX_SUMS = 64;

struct Pairs { int left, right, count; };

struct Finish {
  int* out;
  const int* turns;  // which tile a cluster takes in its turn: long ones are dealt out evenly
  int pitch;  // numbers from row to row of out
  Pairs sum[MAX_SUMS];
};

__device__ __forceinline__ int tile_of(const Finish& finish, int turn) {
  return __ldg(finish.turns + turn);
}
__device__ __forceinline__ int sums_of(const Finish& finish, const Tile& tile) {
  return finish.sum[tile.plane].count;
}
__device__ __forceinline__ Slices slices_of(const Work&, const Finish& finish, const Tile& tile,
                                            int sum) {
  const Pairs& pairs = finish.sum[tile.plane];
  return {pairs.left + sum, pairs.right - sum};
}

struct Target {  // where a thread's sums go
  int* out;
  int height, columns;  // rows of out from the consumer's first on, columns from the thread's on
  int pitch;
  __device__ __forceinline__ void find(const Work& work, const Finish& finish, const Tile& tile,
                                       int consumer) {
    const int row = tile.row + consumer * BLOCKS * 64, column = tile.column + (threadIdx.x & 3) * 2;
    pitch = finish.pitch;
    out = finish.out + ((u64)tile.plane * work.M + row + own_row()) * pitch + column;
    height = work.M - row, columns = pitch - column;
    asm volatile("" : "+l"(out), "+r"(height), "+r"(columns));
  }
  __device__ __forceinline__ void between(int (&)[BLOCKS][TILE_N / 2], int, int) {}
  // In the accumulators' order: two columns of every eight, and a quad's are the 32 bytes of a
  // sector. Stores that the assembler does not turn into branches.
  __device__ __forceinline__ void store(const int (&c)[TILE_N / 2], int block) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int down = block * 64 + half * 8;
      const int room = down + own_row() < height ? columns : 0;
      int* const to = out + (u64)pitch * down;
#pragma unroll
      for (int group = 0; group < TILE_N / 8; group++)
        asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b32 [%1], {%2, %3};}"
                     ::"r"((int)(group * 8 < room)), "l"(to + group * 8),
                       "r"(c[group * 4 + half * 2]), "r"(c[group * 4 + half * 2 + 1]) : "memory");
    }
  }
};
