// Single-threaded float32 products of row-major matrices, for kernels that
// split their own work among threads.
#pragma once

#include <omp.h>

#include <cstdint>
#include <dnnl.hpp>

namespace gpupool::engine {

// c [m, n] = alpha op(a) op(b) + beta c, where op(a) is [m, k]. A leading
// dimension is the distance in elements between rows of the matrix in memory.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  float alpha = 1, beta = 0;

  void Run(const float* a, const float* b, float* c) const {
    dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha,
               a, lda, b, ldb, beta, c, ldc);
  }
};

// Must be called before Gemm::Run outside of parallel regions: oneDNN would use
// the whole team there.
inline void UseOneThreadForGemm() { omp_set_num_threads(1); }

}  // namespace gpupool::engine
