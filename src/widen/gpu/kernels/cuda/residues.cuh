// The end of a product of residue planes: one byte an element, times a coefficient modulo p.
//
//   PERMUTED    1: TMA has reordered right's rows     LONG    1: sums beyond int32
//   WIDE        1: moduli below 2^14, two bytes an element
constexpr int MAX_PLANES = 64;
// 1023 steps of products up to 2^14 in magnitude, and a residue: 1023 * 2^21 + 255 < 2^31.
[[maybe_unused]] constexpr int LONGEST = 1023;

// How to reduce a sum modulo p: multiply.py derives the numbers and proves that they suffice.
#if WIDE
struct Recipe { u32 weights, offset, high_weights; };
struct Plane { Recipe last, folding; float inverse; u32 minus_modulus; };
constexpr int SIZE = 2;  // bytes of an element of out
#else
struct Recipe { u32 weights, offset; };
struct Plane { Recipe last, folding; float inverse; u32 minus_modulus; };
constexpr int SIZE = 1;
#endif

struct Finish {
  u8* out;
  int pitch;  // elements from row to row of out
  Plane plane[MAX_PLANES];
};

__device__ __forceinline__ int tile_of(const Finish&, int turn) { return turn; }
__device__ __forceinline__ int sums_of(const Finish&, const Tile&) { return 1; }
__device__ __forceinline__ Slices slices_of(const Work& work, const Finish&, const Tile& tile, int) {
  return own_slices(work, tile);
}

#if WIDE
// (sum * w) mod p for every 32-bit sum, or that less p if it is p - 1 or p - 2; whatever in the
// upper half. As below, with weights 128 h + l in two dot products.
struct Reduction {
  u32 weights, offset, high_weights, minus_modulus;
  float inverse;
  __device__ __forceinline__ void read(const Recipe& recipe, const Plane& plane) {
    weights = recipe.weights, offset = recipe.offset, high_weights = recipe.high_weights;
    minus_modulus = plane.minus_modulus, inverse = plane.inverse;
  }
  __device__ __forceinline__ void keep() {
    asm volatile("" : "+r"(weights), "+r"(offset), "+r"(high_weights), "+r"(minus_modulus),
                 "+f"(inverse));
  }
  __device__ __forceinline__ u32 of(int sum) const {
    u32 low, high;
    asm("dp4a.u32.s32 %0, %1, %2, %3;"
        : "=r"(low) : "r"(sum ^ 0x80000000), "r"(weights), "r"(offset));
    asm("dp4a.u32.s32 %0, %1, %2, %3;"
        : "=r"(high) : "r"(sum ^ 0x80000000), "r"(high_weights), "r"(0));
    const u32 x = 128 * high + low;
    const float quotient = __fmaf_rd(__uint_as_float(x), inverse, 8388608.f);
    return __float_as_uint(quotient) * minus_modulus + x;
  }
  __device__ __forceinline__ u32 of_two(int a, int b) const {  // in one word
    return __byte_perm(of(a), of(b), 0x5410);
  }
};
#else
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
  __device__ __forceinline__ void keep() {
    asm volatile("" : "+r"(weights), "+r"(offset), "+r"(minus_modulus), "+f"(inverse));
  }
};
#endif

// In the accumulators' order a thread holds columns 2 q and 2 q + 1 of every eight, q being its
// place in a quad, of two rows eight apart. Bytes are stored BYTES at a time, so a thread must have
// neighbours. Where TMA has transposed 8 x 8 columns, it holds columns 16 q to 16 q + 15 of 64.
// Else the quad transposes its pairs of four times eight columns: 0.98 of the speed.
constexpr int BYTES = PERMUTED ? 16 : WIDE ? 2 : 8;

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
#if WIDE && PERMUTED
#pragma unroll
  for (int group = 0; group < TILE_N / 64; group++)
#pragma unroll
    for (int eight = 0; eight < 2; eight++) {
      u32 word[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int four = 2 * eight + (i >> 1);
        const int first = group * 32 + (four & 1) * 16 + half * 2 + (four >> 1) + (i & 1) * 8;
        word[i] = reduction.of_two(c[first], c[first + 4]);
      }
      store_if(group * 64 < columns, to + SIZE * (group * 64 + eight * 8), word);
    }
#elif WIDE
#pragma unroll
  for (int group = 0; group < TILE_N / 8; group++)
    if (group * 8 < columns)
      *(u32*)(to + SIZE * group * 8) =
          reduction.of_two(c[group * 4 + half * 2], c[group * 4 + half * 2 + 1]);
#elif PERMUTED
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
  for (int i = 0; i < TILE_N / 2; i++)
    c[i] = WIDE ? (int)(short)reduction.of(c[i]) : reduction.of(c[i]) & 0xFF;
}
struct Target {  // where a thread's sums go
  u8* out;
  int height, columns;  // rows of out from the consumer's first on, columns from the thread's on
  int pitch;
  Reduction reduction;
  const Plane* plane;
  // Called while products are in flight: between tiles, this took 1100 clocks.
  __device__ __forceinline__ void find(const Work& work, const Finish& finish, const Tile& tile,
                                       int consumer) {
    const int row = tile.row + consumer * BLOCKS * 64;
    const int column = tile.column + (threadIdx.x & 3) * BYTES;
    const u64 line = (u64)(tile.plane * work.batch + tile.batch) * work.M + row + own_row();
    pitch = finish.pitch;
    out = finish.out + SIZE * (line * pitch + column);
    height = work.M - row, columns = pitch - column;
    plane = &finish.plane[tile.plane];
    reduction.read(plane->last, *plane);
    asm volatile("" : "+l"(out), "+r"(height), "+r"(columns));
    reduction.keep();
  }
  // Between two steps.
  __device__ __forceinline__ void between(int (&c)[BLOCKS][TILE_N / 2], int step, int) {
#if LONG
    if (step % LONGEST == LONGEST - 1)
#pragma unroll
      for (int block = 0; block < BLOCKS; block++) fold(c[block], *plane);
#endif
  }
  __device__ __forceinline__ void store(const int (&c)[TILE_N / 2], int block) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int down = block * 64 + half * 8;
      const int room = down + own_row() < height ? columns : 0;
      store_row(c, half, out + SIZE * (u64)pitch * down, room, reduction);
    }
  }
};
