#include "server/worker/model_profile_run.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/worker/turnstile.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {

void ModelProfileRun::Start(const worker::v1::ProfileModel& request,
                            Done done) {
  auto run = std::make_shared<Run>(Run{request, 0, std::move(done)});
  turnstile_->Post([this, run = std::move(run)] { Begin(run); });
}

void ModelProfileRun::Begin(std::shared_ptr<Run> run) {
  const absl::StatusOr<engine::ServedModel*> model =
      turnstile_->models().Find(run->request.version_id());
  if (!model.ok()) return run->done(model.status());
  const absl::Status started =
      (*model)->StartProfile(run->request.requests(), run->request.rows());
  if (!started.ok()) return run->done(started);
  turnstile_->Post([this, run = std::move(run)] { ComputeNext(run); });
}

void ModelProfileRun::ComputeNext(std::shared_ptr<Run> run) {
  // Looked up each time, because it may have been unloaded.
  const absl::StatusOr<engine::ServedModel*> model =
      turnstile_->models().Find(run->request.version_id());
  if (!model.ok()) return run->done(model.status());
  if (run->made == run->request.requests()) return run->done(Take(*run));
  const absl::Status computed = (*model)->ProfileRequest();
  if (!computed.ok()) return run->done(computed);
  ++run->made;
  turnstile_->Post([this, run = std::move(run)] { ComputeNext(run); });
}

absl::StatusOr<worker::v1::ProfileReply> ModelProfileRun::Take(const Run& run) {
  ASSIGN_OR_RETURN(engine::ServedModel* const model,
                   turnstile_->models().Find(run.request.version_id()));
  ASSIGN_OR_RETURN(const engine::StoredProfile stored, model->TakeProfile());
  spdlog::info("model profiled version={} requests={} bytes={}",
               run.request.version_id(), run.made, stored.bytes);
  worker::v1::ProfileReply reply;
  reply.set_sha256(stored.sha256);
  reply.set_bytes(stored.bytes);
  reply.set_steps(run.made);
  return reply;
}

}  // namespace gpupool::server
