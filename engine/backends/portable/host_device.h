// One source for two compilers: what is marked runs on the host and, compiled
// by nvcc, on a GPU. Headers of this folder that say so in their first line
// include nothing but each other and the C++ standard library.
#pragma once

#ifdef __CUDACC__
#define GPUPOOL_HOST_DEVICE __host__ __device__
#else
#define GPUPOOL_HOST_DEVICE
#endif
