// Private to server/api/inference: the answers of the rpcs about shared memory.
//
// Pure functions but for the book.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "inference/grpc_service.pb.h"
#include "server/serving/regions/region_book.h"

namespace gpupool::server {

// Fills in the regions of the caller's tenant. Errors are those of
// RegionBook::List.
absl::Status FillRegions(
    const inference::SystemSharedMemoryStatusRequest& request,
    const RegionCaller& caller, const RegionBook& book,
    inference::SystemSharedMemoryStatusResponse* response);

// Registers the region of the request. Errors are those of
// RegionBook::Register.
absl::Status RegisterRegion(
    const inference::SystemSharedMemoryRegisterRequest& request,
    const RegionCaller& caller, RegionBook* book);

// Returns the answer of a question about a region of CUDA, of which there are
// none. NotFound for a name.
absl::Status NoCudaRegion(const std::string& name);

}  // namespace gpupool::server
