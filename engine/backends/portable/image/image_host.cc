#include "engine/backends/portable/image/image_functors.h"
#include "engine/backends/portable/launch/launch_host-inl.h"

namespace gpupool::engine::portable {

GPUPOOL_IMAGE_FUNCTORS(GPUPOOL_INSTANTIATE_FOR, GPUPOOL_INSTANTIATE_ROWS)

}  // namespace gpupool::engine::portable
