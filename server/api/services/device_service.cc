#include "server/api/services/device_service.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/device.grpc.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/rpc/hidden_models.h"
#include "server/api/rpc/stream_registry.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/rpc/unary.h"
#include "server/api/transfer/worker_file.h"
#include "server/api/validation/convert.h"
#include "server/api/watch/watch_devices.h"
#include "server/control/devices/bench_requests.h"
#include "server/control/devices/device_requests.h"
#include "server/control/devices/memory_requests.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

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
                   kMaxHistoryEntries, " events are kept"));
}

class Service : public v1::DeviceService::CallbackService,
                public DeviceService {
 public:
  Service(const ControlContext* control, const BlobStore* blobs,
          const TenantAccess* tenants, size_t watch_limit)
      : control_(control),
        blobs_(blobs),
        tenants_(tenants),
        watches_(watch_limit) {}

  grpc::Service& service() override { return *this; }
  void StopStreams() override {
    watches_.StopAll();
    dumps_.StopAll();
  }

  // ------------------------------------------------- answered by the worker

  Reactor* GetMemoryStats(Context* context,
                          const v1::GetMemoryStatsRequest* request,
                          v1::MemoryStats* response) override {
    ToWorker message;
    message.mutable_get_memory();
    return Ask(context, request->device(), std::move(message),
               [response](FromWorker& reply) {
                 response->Swap(reply.mutable_memory()->mutable_stats());
                 return response;
               });
  }

  Reactor* GetMemorySummary(Context* context,
                            const v1::GetMemorySummaryRequest* request,
                            v1::GetMemorySummaryResponse* response) override {
    ToWorker message;
    message.mutable_get_memory()->set_with_summary(true);
    return Ask(context, request->device(), std::move(message),
               [response](FromWorker& reply) {
                 response->set_text(
                     std::move(*reply.mutable_memory()->mutable_summary()));
                 return response;
               });
  }

  Reactor* GetMemorySnapshot(Context* context,
                             const v1::GetMemorySnapshotRequest* request,
                             v1::MemorySnapshot* response) override {
    ToWorker message;
    message.mutable_get_memory()->set_with_snapshot(true);
    message.mutable_get_memory()->set_with_timeline(request->with_timeline());
    return Ask(context, request->device(), std::move(message),
               [response](FromWorker& reply) {
                 response->Swap(reply.mutable_memory()->mutable_snapshot());
                 return response;
               });
  }

  Reactor* EmptyCache(Context* context, const v1::EmptyCacheRequest* request,
                      v1::EmptyCacheResponse* response) override {
    ToWorker message;
    *message.mutable_empty_cache() = *request;
    return Ask(context, request->device(), std::move(message),
               [response](FromWorker& reply) {
                 response->Swap(reply.mutable_empty_cache());
                 return response;
               });
  }

  Reactor* ResetPeak(Context* context, const v1::ResetPeakRequest* request,
                     v1::MemoryStats* response) override {
    ToWorker message;
    *message.mutable_reset_peak() = *request;
    return Ask(context, request->device(), std::move(message),
               [response](FromWorker& reply) {
                 response->Swap(reply.mutable_memory()->mutable_stats());
                 return response;
               });
  }

  Reactor* RecordMemoryHistory(
      Context* context, const v1::RecordMemoryHistoryRequest* request,
      v1::RecordMemoryHistoryResponse* response) override {
    absl::Status checked = CheckDevice(request->device());
    if (checked.ok()) checked = CheckHistory(*request);
    if (!checked.ok()) return Reply(context, checked);
    ToWorker message;
    auto& record = *message.mutable_record_memory_history();
    record.set_enabled(request->enabled());
    record.set_max_entries(request->max_entries());
    return Ask(context, request->device(), std::move(message),
               [response](FromWorker&) { return response; });
  }

  grpc::ServerWriteReactor<v1::DumpMemoryResponse>* DumpMemory(
      Context* context, const v1::DumpMemoryRequest* request) override {
    const absl::Status checked = CheckDevice(request->device());
    if (!checked.ok()) return new Refuse<v1::DumpMemoryResponse>(checked);
    using Dump = WorkerFile<v1::DumpMemoryResponse>;
    return Dump::Begin(
        std::make_shared<Dump>(
            blobs_,
            [control = control_,
             device = request->device()](Callback<Dump::Made> made) {
              ToWorker message;
              message.mutable_dump_memory();
              AskDevice(*control, device, std::move(message),
                        [made](const absl::StatusOr<FromWorker>& reply) {
                          if (!reply.ok()) return made(reply.status());
                          made(Dump::Made{reply->dump_memory().sha256(),
                                          reply->dump_memory().bytes()});
                        });
            },
            "dump the memory again"),
        PlaceIn(&dumps_, context, tenants_->CallerOf(*context)));
  }

  // -------------------------------------------------------- decided by control

  Reactor* ListDevices(Context* context, const v1::ListDevicesRequest*,
                       v1::ListDevicesResponse* response) override {
    const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
    if (!caller.ok()) return Reply(context, caller.status());
    for (v1::Device& device : server::ListDevices(*control_)) {
      HideModelsOf(*tenants_, *caller, &device);
      *response->add_devices() = std::move(device);
    }
    return Reply(context, absl::OkStatus());
  }

  Reactor* SetMemoryFraction(Context* context,
                             const v1::SetMemoryFractionRequest* request,
                             v1::MemoryStats* response) override {
    absl::Status checked = CheckDevice(request->device());
    if (checked.ok()) checked = CheckFraction(request->fraction());
    if (!checked.ok()) return Reply(context, checked);
    Reactor* reactor = context->DefaultReactor();
    server::SetMemoryFraction(*control_, *request,
                              ReplyLater(reactor, response));
    return reactor;
  }

  Reactor* BenchDevice(Context* context, const v1::BenchDeviceRequest* request,
                       v1::DeviceBench* response) override {
    const absl::Status checked = CheckDevice(request->device());
    if (!checked.ok()) return Reply(context, checked);
    Reactor* reactor = context->DefaultReactor();
    server::BenchDevice(*control_, *request, ReplyLater(reactor, response));
    return reactor;
  }

  Reactor* GetDeviceBench(Context* context,
                          const v1::GetDeviceBenchRequest* request,
                          v1::DeviceBench* response) override {
    const absl::Status checked = CheckDevice(request->device());
    if (!checked.ok()) return Reply(context, checked);
    Reactor* reactor = context->DefaultReactor();
    server::GetDeviceBench(*control_, *request, ReplyLater(reactor, response));
    return reactor;
  }

  Reactor* DrainDevice(Context* context, const v1::DrainDeviceRequest* request,
                       v1::Device* response) override {
    absl::Status checked = CheckDevice(request->device());
    if (checked.ok()) checked = CheckReason(request->drain().reason());
    if (!checked.ok()) return Reply(context, checked);
    Reactor* reactor = context->DefaultReactor();
    SetDrain(*control_, request->device(), request->drain(),
             ReplyLater(reactor, response));
    return reactor;
  }

  Reactor* ResumeDevice(Context* context,
                        const v1::ResumeDeviceRequest* request,
                        v1::Device* response) override {
    const absl::Status checked = CheckDevice(request->device());
    if (!checked.ok()) return Reply(context, checked);
    Reactor* reactor = context->DefaultReactor();
    SetDrain(*control_, request->device(), std::nullopt,
             ReplyLater(reactor, response));
    return reactor;
  }

  grpc::ServerWriteReactor<v1::ListDevicesResponse>* WatchDevices(
      Context* context, const v1::WatchDevicesRequest* request) override {
    const absl::StatusOr<absl::Duration> interval = WatchInterval(*request);
    if (!interval.ok()) {
      return new Refuse<v1::ListDevicesResponse>(interval.status());
    }
    const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
    if (!caller.ok()) {
      return new Refuse<v1::ListDevicesResponse>(caller.status());
    }
    return WatchDevicesStream::Begin(
        std::make_shared<WatchDevicesStream>(
            control_, *interval,
            [tenants = tenants_, caller = *caller](v1::Device* device) {
              HideModelsOf(*tenants, caller, device);
            }),
        PlaceIn(&watches_, context, caller));
  }

 private:
  // Limit of dumps at a time, since each holds a file that may be large.
  static constexpr size_t kMaxDumps = 16;

  // Moves the client's answer out of a reply, and returns it.
  using TakeAnswer = std::function<google::protobuf::Message*(FromWorker&)>;

  // Sends the message to the device's worker.
  Reactor* Ask(Context* context, const std::string& device, ToWorker message,
               TakeAnswer take) {
    const absl::Status checked = CheckDevice(device);
    if (!checked.ok()) return Reply(context, checked);
    const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
    if (!caller.ok()) return Reply(context, caller.status());
    Reactor* reactor = context->DefaultReactor();
    AskDevice(*control_, device, std::move(message),
              [reactor, take = std::move(take), tenants = tenants_,
               caller = *caller](absl::StatusOr<FromWorker> reply) {
                if (reply.ok()) HideModels(*tenants, caller, take(*reply));
                reactor->Finish(ToGrpc(reply.status()));
              });
    return reactor;
  }

  const ControlContext* const control_;
  const BlobStore* const blobs_;
  const TenantAccess* const tenants_;
  StreamRegistry watches_;
  StreamRegistry dumps_{kMaxDumps, kStreamPatience};
};

}  // namespace

std::unique_ptr<DeviceService> MakeDeviceService(const ControlContext* control,
                                                 const BlobStore* blobs,
                                                 const TenantAccess* tenants,
                                                 size_t watch_limit) {
  return std::make_unique<Service>(control, blobs, tenants, watch_limit);
}

}  // namespace gpupool::server
