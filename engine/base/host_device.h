// One source for two compilers: a function that is marked so runs on the host
// and, compiled by nvcc, on a GPU.
#pragma once

#ifdef __CUDACC__
#define GPUPOOL_HOST_DEVICE __host__ __device__
#else
#define GPUPOOL_HOST_DEVICE
#endif
