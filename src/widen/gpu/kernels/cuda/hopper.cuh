// Hopper's instructions: barriers, bulk copies to a block or a cluster, products of int8 tiles.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;

struct alignas(64) TensorMap { u64 opaque[16]; };

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
template <int in_flight> __device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(in_flight) : "memory");
}

// ── threads ───────────────────────────────────────────────────────────────────────────────────

__device__ __forceinline__ int own_row() {  // the thread's first of 64
  return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7);
}
__device__ __forceinline__ void warpgroup_sync(int consumer) {
  asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
}
