// A cache of the plans that a vendor's library chose, in a folder that
// processes share. Each plan has a file, which is checked when it is read. A
// damaged file counts as missing and is removed.
//
// A file, with all numbers little-endian:
//   8 bytes   "gpplan01"
//   8 bytes   length of the key, then the key
//   8 bytes   length of the plan, then the plan
//   64 bytes  SHA-256 of everything before, in hex
// The file's name is the SHA-256 of the key in hex. A key names the device, the
// library with its version, and the operation.
//
// Thread-safety: one thread at a time. Several processes may share a folder.
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
  uint64_t plan_bytes = uint64_t{8} << 20;  // per plan
};

class PlanCache {
 public:
  // Keeps plans in memory only when `folder` is empty or cannot be used.
  explicit PlanCache(std::string folder, const PlanCacheLimits& limits = {});

  // Returns the plan. NOT_FOUND when there is none or it is damaged.
  absl::StatusOr<std::string> Find(absl::string_view key);
  // Adds or replaces a plan. Removes the oldest files when there are too many.
  // A plan that is too large and a full disk are no errors: the choice is then
  // made again next time.
  void Put(absl::string_view key, absl::string_view plan);
  // Removes a plan that the library rejected.
  void Forget(absl::string_view key);

 private:
  std::string PathOf(absl::string_view key) const;
  void DropOldest();

  std::string folder_;
  const PlanCacheLimits limits_;
  absl::flat_hash_map<std::string, std::string> plans_;
};

}  // namespace gpupool::engine::cuda
