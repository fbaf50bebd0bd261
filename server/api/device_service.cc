#include "server/api/device_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/api/convert.h"
#include "server/api/memory_dump.h"
#include "server/api/unary.h"
#include "server/api/watch_devices.h"
#include "server/control/device_requests.h"
#include "server/control/memory_requests.h"

namespace gpupool::server {
namespace {

using worker::v1::MemoryReply;

// Takes one part of the worker's answer.
template <typename Response, typename Part>
std::function<void(absl::StatusOr<MemoryReply>)> ReplyWithPart(
    grpc::ServerUnaryReactor* reactor, Response* response, Part part) {
  return [=](absl::StatusOr<MemoryReply> reply) {
    if (reply.ok()) part(*reply, response);
    reactor->Finish(ToGrpc(reply.status()));
  };
}

// A stream that ends before it begins.
template <typename Response>
class Refuse : public grpc::ServerWriteReactor<Response> {
 public:
  explicit Refuse(const absl::Status& status) { this->Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

constexpr uint64_t kMaxHistoryEntries = 1'000'000;
constexpr size_t kMaxReasonBytes = 200;

absl::Status CheckFraction(double fraction) {
  if (fraction > 0 && fraction <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "fraction is ", fraction, "; it must be above 0 and at most 1"));
}

absl::Status CheckReason(absl::string_view reason) {
  if (reason.size() > kMaxReasonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reason has ", reason.size(), " bytes, at most ",
                     kMaxReasonBytes, " are kept"));
  }
  if (std::any_of(reason.begin(), reason.end(), [](unsigned char byte) {
        return absl::ascii_iscntrl(byte);
      })) {
    return absl::InvalidArgumentError(
        "the reason has control characters; write it in one line");
  }
  return absl::OkStatus();
}

absl::Status CheckHistory(const v1::RecordMemoryHistoryRequest& request) {
  if (request.max_entries() <= kMaxHistoryEntries) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("max_entries is ", request.max_entries(), "; at most ",
                   kMaxHistoryEntries, " events are remembered"));
}

}  // namespace

grpc::ServerUnaryReactor* DeviceService::ListDevices(
    grpc::CallbackServerContext* context, const v1::ListDevicesRequest*,
    v1::ListDevicesResponse* response) {
  for (v1::Device& device : server::ListDevices(*control_)) {
    *response->add_devices() = std::move(device);
  }
  return Reply(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* DeviceService::GetMemoryStats(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request, v1::MemoryStats* response) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::GetMemory(
      *control_, request->device(), /*with_snapshot=*/false,
      /*with_summary=*/false,
      ReplyWithPart(reactor, response,
                    [](MemoryReply& reply, v1::MemoryStats* stats) {
                      stats->Swap(reply.mutable_stats());
                    }));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::GetMemorySummary(
    grpc::CallbackServerContext* context,
    const v1::GetMemorySummaryRequest* request,
    v1::GetMemorySummaryResponse* response) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::GetMemory(
      *control_, request->device(), /*with_snapshot=*/false,
      /*with_summary=*/true,
      ReplyWithPart(reactor, response,
                    [](MemoryReply& reply, v1::GetMemorySummaryResponse* to) {
                      to->set_text(std::move(*reply.mutable_summary()));
                    }));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::GetMemorySnapshot(
    grpc::CallbackServerContext* context,
    const v1::GetMemorySnapshotRequest* request, v1::MemorySnapshot* response) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::GetMemory(
      *control_, request->device(), /*with_snapshot=*/true,
      /*with_summary=*/false,
      ReplyWithPart(reactor, response,
                    [](MemoryReply& reply, v1::MemorySnapshot* snapshot) {
                      snapshot->Swap(reply.mutable_snapshot());
                    }));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::EmptyCache(
    grpc::CallbackServerContext* context, const v1::EmptyCacheRequest* request,
    v1::EmptyCacheResponse* response) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::EmptyCache(*control_, request->device(),
                     ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::ResetPeak(
    grpc::CallbackServerContext* context, const v1::ResetPeakRequest* request,
    v1::MemoryStats* response) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::ResetPeak(*control_, request->device(),
                    ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::SetMemoryFraction(
    grpc::CallbackServerContext* context,
    const v1::SetMemoryFractionRequest* request, v1::MemoryStats* response) {
  absl::Status checked = CheckDevice(request->device());
  if (checked.ok()) checked = CheckFraction(request->fraction());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::SetMemoryFraction(*control_, *request, ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::DrainDevice(
    grpc::CallbackServerContext* context, const v1::DrainDeviceRequest* request,
    v1::Device* response) {
  absl::Status checked = CheckDevice(request->device());
  if (checked.ok()) checked = CheckReason(request->drain().reason());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::SetDrain(*control_, request->device(), request->drain(),
                   ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::ResumeDevice(
    grpc::CallbackServerContext* context,
    const v1::ResumeDeviceRequest* request, v1::Device* response) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::SetDrain(*control_, request->device(), std::nullopt,
                   ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* DeviceService::RecordMemoryHistory(
    grpc::CallbackServerContext* context,
    const v1::RecordMemoryHistoryRequest* request,
    v1::RecordMemoryHistoryResponse* response) {
  absl::Status checked = CheckDevice(request->device());
  if (checked.ok()) checked = CheckHistory(*request);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::RecordMemoryHistory(*control_, *request,
                              ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerWriteReactor<v1::DumpMemoryResponse>* DeviceService::DumpMemory(
    grpc::CallbackServerContext*, const v1::DumpMemoryRequest* request) {
  const absl::Status checked = CheckDevice(request->device());
  if (!checked.ok()) return new Refuse<v1::DumpMemoryResponse>(checked);
  return MemoryDump::Begin(
      std::make_shared<MemoryDump>(control_, blobs_, request->device()),
      &dumps_);
}

grpc::ServerWriteReactor<v1::ListDevicesResponse>* DeviceService::WatchDevices(
    grpc::CallbackServerContext*, const v1::WatchDevicesRequest* request) {
  const absl::StatusOr<absl::Duration> interval = WatchInterval(*request);
  if (!interval.ok())
    return new Refuse<v1::ListDevicesResponse>(interval.status());
  return WatchDevicesStream::Begin(
      std::make_shared<WatchDevicesStream>(control_, *interval), &watches_);
}

}  // namespace gpupool::server
