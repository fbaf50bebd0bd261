// The regions of shared memory that clients have registered. Each tenant has
// names of its own, and sees no region of another one.
//
// Thread-safety: any thread. Ownership: owns its regions together with the
// requests that use them, so that a region that is unregistered lives until
// these have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/serving/regions/shared_region.h"

namespace gpupool::server {

// The caller that asks for a region.
struct RegionCaller {
  std::string tenant;  // empty: none
  // User of this machine who runs it. Empty: not known, or another machine.
  std::optional<uint32_t> user;
};

// Limits of open regions, each of which takes a descriptor. Regions that were
// unregistered count while requests use them.
struct RegionLimits {
  size_t regions = 512;
  size_t regions_of_tenant = 128;
  uint64_t bytes_of_tenant = uint64_t{1} << 40;
};

class RegionBook {
 public:
  // `folder` is where the system keeps shared memory.
  explicit RegionBook(const RegionLimits& limits = {},
                      std::string folder = "/dev/shm");

  // Opens a region and gives it to the caller's tenant. Errors, beside those of
  // SharedRegion::Open:
  //   * PermissionDenied: the caller is not known to be on this machine
  //   * AlreadyExists: the tenant has a region of that name
  //   * ResourceExhausted: a limit, which the text names
  absl::Status Register(const RegionCaller& caller, const RegionSpec& spec);

  // Forgets a region of the tenant, or all of them if `name` is empty. A name
  // that is not registered is no error.
  void Unregister(const std::string& tenant, const std::string& name);

  // Returns the region of that name, or all of the tenant by name if it is
  // empty. NotFound for a name that is not registered.
  absl::StatusOr<std::vector<RegionSpec>> List(const std::string& tenant,
                                               const std::string& name) const;

  // Returns a region for a request. NotFound for a name that is not registered,
  // PermissionDenied for a caller that is not known to be on this
  // machine.
  absl::StatusOr<std::shared_ptr<const SharedRegion>> Find(
      const RegionCaller& caller, const std::string& name) const;

 private:
  using Region = std::shared_ptr<const SharedRegion>;
  using Place = std::pair<std::string, std::string>;  // tenant, name

  absl::Status CheckRoom(const std::string& tenant, const RegionSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RegionLimits limits_;
  const std::string folder_;
  mutable absl::Mutex mutex_;
  std::map<Place, Region> regions_ ABSL_GUARDED_BY(mutex_);
  // Regions that were unregistered while requests used them, by tenant.
  std::vector<std::pair<std::string, std::weak_ptr<const SharedRegion>>> ended_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
