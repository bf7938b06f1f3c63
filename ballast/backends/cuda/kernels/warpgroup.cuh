// Instructions of Hopper that one warp alone does not have: products by four warps, bulk copies into shared memory, and
// the barriers that these arrive at. Only machine code for sm_90a has them.
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BALLAST_HAS_WARPGROUPS 1
#else
#define BALLAST_HAS_WARPGROUPS 0
#endif

#if BALLAST_HAS_WARPGROUPS
namespace ballast::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// ---------------------------------------------------------------- barriers in shared memory
// Phases of a barrier end when as many as it was made for have arrived, and the bytes that were announced too. Who
// waits names the parity of the phase.
__device__ __forceinline__ void make_barrier(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
}
// The bytes, a multiple of 16, arrive at the barrier.
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// Of `threads` threads, which are whole warps of a block.
__device__ __forceinline__ void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Of what a thread may have, from then on: a warpgroup calls one of these as a whole.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---------------------------------------------------------------- products of 64 rows
// Where the second operand lies: 8 columns of 8 terms are 128 bytes, column after column; the 8 terms and the 8 columns
// that follow are so many bytes on.
__device__ __forceinline__ uint64_t operand_at(uint32_t address, uint32_t terms_step, uint32_t columns_step) {
  return (address & 0x3FFFFU) >> 4 | static_cast<uint64_t>(terms_step >> 4) << 16 |
         static_cast<uint64_t>(columns_step >> 4) << 32;
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All but the last kOpen batches are done.
template <int kOpen>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// All are, and their sums can be read.
template <int kSums>
__device__ __forceinline__ void finish_products(float (&sums)[kSums]) {
  wait_for_products<0>();
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");  // nothing that reads them goes before
}

// c += a * b, for rows of x in columns of c. Warp w of the four has rows 16 w .. 16 w + 15 of a and c, in the lanes
// that mma.sync has them in.
#define BALLAST_4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define BALLAST_16(c, i) BALLAST_4(c, i), BALLAST_4(c, i + 4), BALLAST_4(c, i + 8), BALLAST_4(c, i + 12)
#define BALLAST_NAMES_32                                                                                               \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
  "%31"
#define BALLAST_NAMES_64                                                                                              \
  BALLAST_NAMES_32                                                                                                    \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
  "%60,%61,%62,%63"
#define BALLAST_WGMMA(type, columns, names, operands, ...)                                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" names "}, " operands \
               ", 1, "                                                                                        \
               "1, 1, 0;"                                                                                     \
               : __VA_ARGS__                                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <bool kHalf>
__device__ __forceinline__ void multiply_rows(float (&c)[32], const uint32_t (&a)[4], uint64_t b) {
#define BALLAST_WGMMA_64(type) \
  BALLAST_WGMMA(type, "64", BALLAST_NAMES_32, "{%32,%33,%34,%35}, %36", BALLAST_16(c, 0), BALLAST_16(c, 16))
  if constexpr (kHalf) BALLAST_WGMMA_64("f16");
  else BALLAST_WGMMA_64("bf16");
#undef BALLAST_WGMMA_64
}

template <bool kHalf>
__device__ __forceinline__ void multiply_rows(float (&c)[64], const uint32_t (&a)[4], uint64_t b) {
#define BALLAST_WGMMA_128(type)                                                                               \
  BALLAST_WGMMA(type, "128", BALLAST_NAMES_64, "{%64,%65,%66,%67}, %68", BALLAST_16(c, 0), BALLAST_16(c, 16), \
                BALLAST_16(c, 32), BALLAST_16(c, 48))
  if constexpr (kHalf) BALLAST_WGMMA_128("f16");
  else BALLAST_WGMMA_128("bf16");
#undef BALLAST_WGMMA_128
}
#undef BALLAST_WGMMA
#undef BALLAST_NAMES_64
#undef BALLAST_NAMES_32
#undef BALLAST_16
#undef BALLAST_4

}  // namespace ballast::cuda
#endif
