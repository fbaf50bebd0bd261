#include "server/control/models/version_import.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/control_options.h"
#include "server/control/jobs/rehearsals.h"
#include "server/control/records/rows.h"
#include "server/pool/worker_port.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace gpupool::server {

uint64_t UploadedBytes(const BlobStore& blobs,
                       const v1::UploadModelRequest::Header& model) {
  uint64_t bytes = model.total_bytes();
  const auto add = [&](const std::string& sha256) {
    bytes += blobs.Size(sha256).value_or(0);
  };
  const v1::ModelSpec& spec = model.spec();
  if (spec.has_weights()) add(spec.weights().sha256());
  if (!spec.has_onnx()) return bytes;
  add(spec.onnx().sha256());
  for (const auto& file : spec.onnx().external_files()) add(file.sha256());
  return bytes;
}

void PlanVersion(const ControlContext& context,
                 const v1::UploadModelRequest::Header& model,
                 Callback<v1::ModelVersion> callback) {
  const absl::Status room = context.store->CheckRoom();
  if (!room.ok()) return callback(room);
  worker::v1::ToWorker message;
  worker::v1::ImportModel& import = *message.mutable_import_model();
  *import.mutable_spec() = model.spec();
  import.set_weights_sha256(model.sha256());
  v1::ModelVersion version;
  version.set_model(model.name());
  version.set_state(v1::UNLOADED);
  *version.mutable_serving() = WithDefaults(model.serving());
  *version.mutable_spec() = model.spec();
  import.set_max_batch_size(version.serving().max_batch_size());
  import.set_max_programs(version.serving().max_programs());
  import.set_precision(version.serving().precision());
  Ask<v1::ModelVersion>(
      context, {kMetaDevice, std::move(message), context.options.plan_timeout},
      callback,
      [version = std::move(version),
       callback](const worker::v1::FromWorker& imported) mutable {
        version.set_manifest_sha256(imported.import_model().manifest_sha256());
        *version.mutable_plan() = imported.import_model().plan();
        callback(version);
      });
}

void TryOutVersion(const ControlContext& context,
                   const v1::ModelVersion& version,
                   Callback<v1::ModelVersion> callback) {
  const auto refuse = [name = version.model(),
                       callback](const absl::Status& reason) {
    callback(absl::Status(
        reason.code(),
        absl::StrCat("model \"", name, "\" is refused: ", reason.message())));
  };
  const absl::Status servable = context.options.check_servable(version);
  if (!servable.ok()) return refuse(servable);
  context.rehearsals->Add(
      LoadRequestOf(version),
      [version, callback, refuse](const absl::Status& rehearsed) {
        if (!rehearsed.ok()) return refuse(rehearsed);
        callback(version);
      });
}

}  // namespace gpupool::server
