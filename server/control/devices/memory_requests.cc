#include "server/control/devices/memory_requests.h"

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/device.h"
#include "scheduler/state/state.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/calls/log.h"
#include "server/control/calls/work_queue.h"
#include "server/control/devices/device_board.h"
#include "server/control/devices/device_requests.h"
#include "server/control/records/transaction.h"
#include "server/pool/worker_port.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

ToWorker FractionMessage(double fraction) {
  ToWorker message;
  message.mutable_set_memory_fraction()->set_fraction(fraction);
  return message;
}

// Returns why the fraction cannot be set: an exclusive job holds all usable
// bytes, or more than that is placed.
absl::Status MoreIsPlaced(const scheduler::State& state,
                          const scheduler::Device& device, double fraction) {
  for (const scheduler::JobId job : device.jobs) {
    if (!state.jobs().at(job).demands.exclusive) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.value(), " has all of ", device.name,
                     " to itself (exclusive: true), so that its fraction of ",
                     device.fraction, " cannot be lowered to ", fraction,
                     "; wait for the job to end, or cancel it"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      scheduler::FormatBytes(device.committed_bytes()), " are placed on ",
      device.name, ", more than the ",
      scheduler::FormatBytes(scheduler::ShareOf(device.full_bytes, fraction)),
      " of a fraction of ", fraction,
      "; wait for a job to end, cancel one or unload a model"));
}

// Returns the statistics that are known without the worker.
v1::MemoryStats KnownStats(const ControlContext& context,
                           const std::string& name) {
  const v1::Device device = context.board->Find(name);
  v1::MemoryStats stats = device.memory();
  stats.set_device(name);
  stats.set_limit_bytes(
      scheduler::ShareOf(device.limit_bytes(), device.memory_fraction()));
  return stats;
}

// Undoes the fraction after the worker has refused it although placements fit:
// nothing may be placed by it then. Leaves a fraction that a later request has
// set.
void TakeBack(const ControlContext& context, const std::string& name,
              double refused, double before,
              const std::function<void()>& answer) {
  context.queue->Push([name, refused, before, answer](Transaction& turn) {
    const auto* device = turn.ledger().state.FindDevice(name);
    if (device->fraction == refused) turn.SetMemoryFraction(*device, before);
    turn.AfterCommit(answer);
  });
}

// Tells the worker. The fraction is already on disk and in force for
// placements. A worker that is away gets it when it is back.
void TellWorker(const ControlContext& context,
                const v1::SetMemoryFractionRequest& request, double before,
                const Callback<v1::MemoryStats>& callback) {
  context.workers->Send(
      request.device(), FractionMessage(request.fraction()),
      context.options.memory_timeout,
      [&context, request, before,
       callback](const absl::StatusOr<FromWorker>& reply) {
        if (reply.ok()) return callback(reply->memory().stats());
        if (absl::IsUnavailable(reply.status()) ||
            absl::IsDeadlineExceeded(reply.status())) {
          return callback(KnownStats(context, request.device()));
        }
        TakeBack(context, request.device(), request.fraction(), before,
                 [callback, status = reply.status()] { callback(status); });
      });
}

// Sets the fraction for placements first, durably, and then tells the worker.
// In the other order a crash in between could leave a worker with less memory
// than is placed.
void SetFraction(const ControlContext& context, Transaction& transaction,
                 const v1::SetMemoryFractionRequest& request,
                 const Callback<v1::MemoryStats>& callback) {
  const scheduler::State& state = transaction.ledger().state;
  const auto* device = state.FindDevice(request.device());
  const double before = device->fraction;
  if (!transaction.SetMemoryFraction(*device, request.fraction())) {
    return callback(MoreIsPlaced(state, *device, request.fraction()));
  }
  transaction.AfterCommit([&context, request, before, callback] {
    TellWorker(context, request, before, callback);
  });
}

}  // namespace

void SetMemoryFraction(const ControlContext& context,
                       const v1::SetMemoryFractionRequest& request,
                       Callback<v1::MemoryStats> callback) {
  if (!context.board->Has(request.device())) {
    return callback(NoSuchDevice(request.device()));
  }
  Enqueue<v1::MemoryStats>(
      context, callback,
      [&context, request, callback](Transaction& transaction) {
        SetFraction(context, transaction, request, callback);
      });
}

void SendMemoryFraction(const ControlContext& context,
                        const scheduler::Device& device) {
  context.workers->Send(
      device.name, FractionMessage(device.fraction),
      context.options.memory_timeout,
      [name = device.name,
       fraction = device.fraction](const absl::StatusOr<FromWorker>& reply) {
        if (reply.ok()) return;
        LogWarning(absl::StrCat("event=memory_fraction_refused device=", name,
                                " fraction=", fraction, " error=\"",
                                reply.status().message(), "\""));
      });
}

}  // namespace gpupool::server
