#include "server/api/inference/region_calls.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {

absl::Status FillRegions(
    const inference::SystemSharedMemoryStatusRequest& request,
    const RegionCaller& caller, const RegionBook& book,
    inference::SystemSharedMemoryStatusResponse* response) {
  ASSIGN_OR_RETURN(const std::vector<RegionSpec> regions,
                   book.List(caller.tenant, request.name()));
  for (const RegionSpec& region : regions) {
    auto& status = (*response->mutable_regions())[region.name];
    status.set_name(region.name);
    status.set_key(region.key);
    status.set_offset(region.offset);
    status.set_byte_size(region.bytes);
  }
  return absl::OkStatus();
}

absl::Status RegisterRegion(
    const inference::SystemSharedMemoryRegisterRequest& request,
    const RegionCaller& caller, RegionBook* book) {
  return book->Register(caller, {.name = request.name(),
                                 .key = request.key(),
                                 .offset = request.offset(),
                                 .bytes = request.byte_size()});
}

absl::Status NoCudaRegion(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("Unable to find cuda shared memory region: '", name,
                   "'; this server has none, use system shared memory"));
}

}  // namespace gpupool::server
