#include "engine/backends/cuda/launch_cuda-inl.cuh"
#include "engine/backends/portable/movement_functors.h"

namespace gpupool::engine::portable {

GPUPOOL_MOVEMENT_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
