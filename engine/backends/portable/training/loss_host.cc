#include "engine/backends/portable/launch/launch_host-inl.h"
#include "engine/backends/portable/training/loss_functors.h"

namespace gpupool::engine::portable {

GPUPOOL_LOSS_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
