// The versions that this worker serves. Answers their slots.
//
// Thread-safety: the compute thread. Owns the models.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/slot_ring_server.h"
#include "server/worker/engine.h"

namespace gpupool::server {

class ServedModels {
 public:
  // `engine` must outlive this.
  explicit ServedModels(Engine* engine) : engine_(engine) {}

  // Loads a version. A loaded version is answered as the first time.
  absl::StatusOr<worker::v1::VersionReply> Load(
      const worker::v1::LoadVersion& request);
  // Returns NotFound when it is not loaded.
  absl::Status Unload(uint64_t version_id);
  std::vector<uint64_t> ids() const;
  // Returns NotFound when it is not loaded. The model stays until Unload.
  absl::StatusOr<engine::ServedModel*> Find(uint64_t version_id) const;

  // Computes one request in place and sets the times in its header. NotFound
  // for an unknown version, InvalidArgument when the tensors do not match the
  // model.
  absl::Status Answer(SlotRequest* request);

 private:
  static absl::Status Compute(engine::ServedModel& model, SlotRequest* request);
  worker::v1::VersionReply Describe(uint64_t version_id,
                                    const engine::ServedModel& model) const;

  Engine* const engine_;
  std::map<uint64_t, std::unique_ptr<engine::ServedModel>> models_;
};

}  // namespace gpupool::server
