#include "engine/backends/portable/launch/launch_host-inl.h"
#include "engine/backends/portable/reduction/norm_functors.h"

namespace gpupool::engine::portable {

GPUPOOL_NORM_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
