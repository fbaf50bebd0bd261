// The interface through which control tells serving about versions. Control
// declares it, serving implements it, server.cc connects the two.
//
// Thread-safety: called on the control thread only, one call at a time. The
// functions return soon and never call control back from within. `drained` may
// be called from any thread at any later time. Ownership: the sink must live
// until the control loop has stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gpupool::v1 {
class ModelVersion;
}  // namespace gpupool::v1

namespace gpupool::server {

class ServingSink {
 public:
  virtual ~ServingSink() = default;

  // Tells that the version, whose plan names its tensors, is loaded on `device`
  // and that the device's worker is ready: requests may be sent. May be called
  // again for a served version, after its worker was lost or adopted; the later
  // call wins.
  virtual void VersionReady(const v1::ModelVersion& version,
                            const std::string& device) = 0;

  // Lets no new request in. Calls `drained` exactly once, when no request of
  // the version is in flight any more; at once for an unknown version.
  virtual void VersionDraining(uint64_t version_id,
                               std::function<void()> drained) = 0;

  // Tells that no version on the device is served any more. The ring answers
  // requests in flight. VersionReady follows when versions are back.
  virtual void WorkerLost(const std::string& device) = 0;
};

}  // namespace gpupool::server
