#include "engine/backends/portable/launch_host-inl.h"
#include "engine/backends/portable/norm_functors.h"

namespace gpupool::engine::portable {

GPUPOOL_NORM_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
