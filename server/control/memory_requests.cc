#include "server/control/memory_requests.h"

#include <utility>

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

// Asks the device's worker; NotFound for an unknown device.
template <typename T>
void AskDevice(const ControlContext& context, const std::string& device,
               ToWorker message, absl::Duration timeout,
               const ControlLoop::Callback<T>& callback,
               std::function<void(const FromWorker&)> then) {
  if (!context.board->Has(device)) {
    return callback(absl::NotFoundError(absl::StrCat(
        "there is no device \"", device, "\"; see `gpupool devices`")));
  }
  Ask<T>(context, device, std::move(message), timeout, callback,
         std::move(then));
}

// The answer is the statistics of afterwards.
void AskForStats(const ControlContext& context, const std::string& device,
                 ToWorker message,
                 const ControlLoop::Callback<v1::MemoryStats>& callback) {
  AskDevice<v1::MemoryStats>(context, device, std::move(message),
                             context.options.memory_timeout, callback,
                             [callback](const FromWorker& reply) {
                               callback(reply.memory().stats());
                             });
}

}  // namespace

void GetMemory(const ControlContext& context, const std::string& device,
               bool with_snapshot, bool with_summary,
               ControlLoop::Callback<worker::v1::MemoryReply> callback) {
  ToWorker message;
  message.mutable_get_memory()->set_with_snapshot(with_snapshot);
  message.mutable_get_memory()->set_with_summary(with_summary);
  AskDevice<worker::v1::MemoryReply>(
      context, device, std::move(message), context.options.memory_timeout,
      callback,
      [callback](const FromWorker& reply) { callback(reply.memory()); });
}

void EmptyCache(const ControlContext& context, const std::string& device,
                ControlLoop::Callback<v1::EmptyCacheResponse> callback) {
  ToWorker message;
  message.mutable_empty_cache();
  AskDevice<v1::EmptyCacheResponse>(
      context, device, std::move(message), context.options.memory_timeout,
      callback, [callback](const FromWorker& reply) {
        v1::EmptyCacheResponse response;
        response.set_freed_bytes(reply.empty_cache().freed_bytes());
        callback(response);
      });
}

void ResetPeak(const ControlContext& context, const std::string& device,
               ControlLoop::Callback<v1::MemoryStats> callback) {
  ToWorker message;
  message.mutable_reset_peak();
  AskForStats(context, device, std::move(message), callback);
}

void SetMemoryFraction(const ControlContext& context,
                       const v1::SetMemoryFractionRequest& request,
                       ControlLoop::Callback<v1::MemoryStats> callback) {
  ToWorker message;
  message.mutable_set_memory_fraction()->set_fraction(request.fraction());
  AskForStats(context, request.device(), std::move(message), callback);
}

void RecordMemoryHistory(
    const ControlContext& context,
    const v1::RecordMemoryHistoryRequest& request,
    ControlLoop::Callback<v1::RecordMemoryHistoryResponse> callback) {
  ToWorker message;
  message.mutable_record_memory_history()->set_enabled(request.enabled());
  message.mutable_record_memory_history()->set_max_entries(
      request.max_entries());
  AskDevice<v1::RecordMemoryHistoryResponse>(
      context, request.device(), std::move(message),
      context.options.memory_timeout, callback, [callback](const FromWorker&) {
        callback(v1::RecordMemoryHistoryResponse());
      });
}

void DumpMemory(const ControlContext& context, const std::string& device,
                ControlLoop::Callback<worker::v1::DumpMemoryReply> callback) {
  ToWorker message;
  message.mutable_dump_memory();
  AskDevice<worker::v1::DumpMemoryReply>(
      context, device, std::move(message), context.options.export_timeout,
      callback,
      [callback](const FromWorker& reply) { callback(reply.dump_memory()); });
}

}  // namespace gpupool::server
