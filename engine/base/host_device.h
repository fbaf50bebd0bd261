// GPUPOOL_HOST_DEVICE marks a function that runs on the host and, when nvcc
// compiles it, also on a GPU.
#pragma once

#ifdef __CUDACC__
#define GPUPOOL_HOST_DEVICE __host__ __device__
#else
#define GPUPOOL_HOST_DEVICE
#endif
