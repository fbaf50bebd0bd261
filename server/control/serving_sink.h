// What control tells serving. Control declares it, serving implements it,
// server.cc connects the two.
//
// Thread-safety: called from the control thread only, one call at a time. The
// functions return soon and never call control back from within, but `drained`
// may be called from any thread at any later time.
// Ownership: the sink must live until the control loop has stopped.
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

  // The version, whose plan names its tensors, is loaded on `device`, whose
  // worker is ready: requests may be sent. May come again for a version that is
  // served already, after its worker was lost or adopted; the later call wins.
  virtual void VersionReady(const v1::ModelVersion& version,
                            const std::string& device) = 0;

  // Let no new request in. Calls `drained` exactly once, when no request of
  // the version is in flight any more; at once for an unknown version.
  virtual void VersionDraining(uint64_t version_id,
                               std::function<void()> drained) = 0;

  // Every version on the device is not served any more; requests in flight
  // have been or will be answered by the ring. VersionReady follows when they
  // are back.
  virtual void WorkerLost(const std::string& device) = 0;
};

}  // namespace gpupool::server
