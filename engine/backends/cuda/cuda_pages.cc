#include "engine/backends/cuda/cuda_pages.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// Bytes of a large chunk, if the granularity divides it. A map costs about the
// same for every size, so large chunks save time.
constexpr uint64_t kLargeChunkBytes = 32 << 20;

}  // namespace

CUmemAllocationProp CudaPageSource::properties() const {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  return properties;
}

absl::StatusOr<std::unique_ptr<CudaPageSource>> CudaPageSource::Create(
    const DriverFunctions& driver, int index) {
  CUdevice device = 0;
  RETURN_IF_ERROR(StatusOf(driver.device_get(&device, index),
                           absl::StrCat("asking for GPU ", index)));
  std::unique_ptr<CudaPageSource> source(new CudaPageSource(driver, device));
  const CUmemAllocationProp properties = source->properties();
  size_t granularity = 0;
  RETURN_IF_ERROR(
      StatusOf(driver.granularity(&granularity, &properties,
                                  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
               "asking for the granularity of memory"));
  // Ranges are aligned with masks, so the granularity must be a power of two.
  if (granularity == 0 || (granularity & (granularity - 1)) != 0) {
    return absl::InternalError(absl::StrCat(
        "the driver gives memory in steps of ", granularity, " bytes"));
  }
  if (granularity < kLargeChunkBytes) {
    source->chunk_sizes_.push_back(kLargeChunkBytes);
  }
  source->chunk_sizes_.push_back(granularity);
  return source;
}

absl::StatusOr<uint64_t> CudaPageSource::ReserveRange(uint64_t bytes) {
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(
      StatusOf(driver_.reserve(&address, bytes, granularity(), 0, 0),
               absl::StrCat("reserving ", bytes, " addresses")));
  return address;
}

absl::Status CudaPageSource::FreeRange(const PageRange& range) {
  return StatusOf(driver_.free_range(range.address, range.bytes),
                  "giving addresses back");
}

absl::StatusOr<ChunkHandle> CudaPageSource::CreateChunk(uint64_t bytes) {
  const CUmemAllocationProp properties = this->properties();
  CUmemGenericAllocationHandle chunk = 0;
  RETURN_IF_ERROR(StatusOf(driver_.create(&chunk, bytes, &properties, 0),
                           absl::StrCat("taking ", bytes, " bytes")));
  return chunk;
}

absl::Status CudaPageSource::ReleaseChunk(ChunkHandle chunk) {
  return StatusOf(driver_.release(chunk), "giving memory back");
}

absl::Status CudaPageSource::Map(const PageRange& at, ChunkHandle chunk) {
  RETURN_IF_ERROR(StatusOf(driver_.map(at.address, at.bytes, 0, chunk, 0),
                           absl::StrCat("mapping ", at.bytes, " bytes")));
  CUmemAccessDesc access = {};
  access.location = properties().location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const absl::Status open =
      StatusOf(driver_.set_access(at.address, at.bytes, &access, 1),
               absl::StrCat("opening ", at.bytes, " bytes"));
  if (open.ok()) return open;
  // A failed call must change nothing.
  driver_.unmap(at.address, at.bytes);
  return open;
}

absl::Status CudaPageSource::Unmap(const PageRange& at) {
  return StatusOf(driver_.unmap(at.address, at.bytes), "unmapping memory");
}

}  // namespace gpupool::engine::cuda
