#include "engine/memory/segment_source.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace gpupool::engine {

absl::StatusOr<void*> HostSegmentSource::Allocate(uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the host gave no ", bytes, " bytes: ", std::strerror(errno)));
  }
  return address;
}

void HostSegmentSource::Free(void* address, uint64_t bytes) {
  GPUPOOL_CHECK(munmap(address, bytes) == 0);
}

}  // namespace gpupool::engine
