// Makes arithmetic treat denormal numbers as zero, on the calling thread and on
// threads that it starts afterwards. Decaying moments and saturated softmaxes
// are full of denormals, and each costs about a hundred cycles.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace gpupool::engine {

inline void FlushDenormals() {
#if defined(__SSE2__)
  constexpr unsigned kBits = _MM_FLUSH_ZERO_ON | 0x0040;  // denormals are zero
  if ((_mm_getcsr() & kBits) != kBits) _mm_setcsr(_mm_getcsr() | kBits);
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | uint64_t{1} << 24));
#endif
}

}  // namespace gpupool::engine
