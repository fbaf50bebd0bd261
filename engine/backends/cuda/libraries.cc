#include "engine/backends/cuda/libraries.h"

namespace gpupool::engine::cuda {

void AddLibraries(const LibraryContext& /*context*/, CudaBackend& /*backend*/) {
}

}  // namespace gpupool::engine::cuda
