// What a vendor's library chose for an operation, kept between processes: a
// folder with a file for each choice. Files are checked when they are read; one
// that is not as it was written is as good as none, and is removed.
//
// A file, all numbers little-endian:
//   8 bytes   "gpplan01"
//   8 bytes   length of the key, then the key
//   8 bytes   length of the plan, then the plan
//   64 bytes  SHA-256 of all before it, in hex
// Its name is the SHA-256 of the key, in hex. Keys name the device, the
// library with its version and the operation.
//
// Thread-safety: one thread at a time; several processes may share a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

struct PlanCacheLimits {
  size_t plans = 4096;
  uint64_t plan_bytes = uint64_t{8} << 20;  // of one
};

class PlanCache {
 public:
  // In memory only when `folder` is empty or cannot be used.
  explicit PlanCache(std::string folder, const PlanCacheLimits& limits = {});

  // NOT_FOUND when there is no plan, or none that can be trusted.
  absl::StatusOr<std::string> Find(absl::string_view key);
  // Replaces what was there. A plan that is too large, or a disk that is full,
  // is no error: the choice is made anew next time. The oldest files go when
  // there are too many.
  void Put(absl::string_view key, absl::string_view plan);
  // For a plan that the library would not take back.
  void Forget(absl::string_view key);

 private:
  std::string PathOf(absl::string_view key) const;
  void DropOldest();

  std::string folder_;
  const PlanCacheLimits limits_;
  absl::flat_hash_map<std::string, std::string> plans_;
};

}  // namespace gpupool::engine::cuda
