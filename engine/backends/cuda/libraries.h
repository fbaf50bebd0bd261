// Which libraries' kernels a back end has.
#pragma once

#include "engine/backends/cuda/cuda_backend.h"

namespace gpupool::engine::cuda {

// Adds the makers of every library that the machine has. One that it lacks is
// no error: the portable kernels run instead, slower.
void AddLibraries(const LibraryContext& context, CudaBackend& backend);

}  // namespace gpupool::engine::cuda
