#include "engine/backends/portable/elementwise/elementwise_functors.h"
#include "engine/backends/portable/launch/launch_host-inl.h"

namespace gpupool::engine::portable {

GPUPOOL_ELEMENTWISE_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
