#include "server/control/control_loop.h"

#include <utility>

#include "absl/memory/memory.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/control_impl.h"

namespace gpupool::server {

absl::StatusOr<std::unique_ptr<ControlLoop>> ControlLoop::Create(
    ControlOptions options, ControlDependencies dependencies) {
  if (options.queue_limit == 0) {
    return absl::InvalidArgumentError(
        "ControlOptions.queue_limit is 0; it must be 1 or more");
  }
  auto impl =
      std::make_unique<Impl>(std::move(options), std::move(dependencies));
  const absl::Status status = impl->Recover();
  if (!status.ok()) return status;
  return absl::WrapUnique(new ControlLoop(std::move(impl)));
}

ControlLoop::ControlLoop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlLoop::~ControlLoop() { Stop(); }

void ControlLoop::Start(WorkerPort* workers, ServingSink* serving) {
  impl_->Start(workers, serving);
}
void ControlLoop::Stop() { impl_->Stop(); }
uint64_t ControlLoop::LastReportSequence(const std::string& device) const {
  return impl_->LastReportSequence(device);
}
const ControlContext& ControlLoop::context() const { return impl_->context(); }

void ControlLoop::OnWorkerReady(const std::string& device,
                                const worker::v1::HelloReply& reply) {
  impl_->WorkerIsReady(device, reply);
}
void ControlLoop::OnWorkerLost(const std::string& device,
                               const absl::Status& reason,
                               const WorkOwner& work) {
  impl_->WorkerIsLost(device, reason, work);
}
void ControlLoop::OnReport(const std::string& device,
                           const worker::v1::Report& report) {
  impl_->TakeReport(device, report);
}
void ControlLoop::OnHeartbeat(const std::string& device,
                              const worker::v1::Heartbeat& heartbeat) {
  impl_->TakeHeartbeat(device, heartbeat);
}

}  // namespace gpupool::server
