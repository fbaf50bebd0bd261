#include "engine/backends/portable/launch/launch_host-inl.h"
#include "engine/backends/portable/training/optimizer_functors.h"

namespace gpupool::engine::portable {

GPUPOOL_OPTIMIZER_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
