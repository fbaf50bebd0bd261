#include "server/api/api_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gpupool/v1/device.grpc.pb.h"
#include "server/api/rpc/call_auditor.h"
#include "server/api/rpc/grpc_port.h"
#include "server/api/rpc/method_guard.h"
#include "server/api/rpc/server_credentials.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/services/auth_service.h"
#include "server/api/services/dataset_service.h"
#include "server/api/services/device_service.h"
#include "server/api/services/job_access.h"
#include "server/api/services/job_service.h"
#include "server/api/services/model_service.h"
#include "server/api/services/reservation_service.h"
#include "server/api/services/upload_service.h"
#include "server/api/services/usage_service.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {
namespace {

constexpr int kMetadataLimitBytes = 16 << 10;
constexpr int kStreamsPerConnection = 1024;

// Lets both ends ping, so that a dead peer is noticed in about a minute. A
// client may ping as often as ours does (30 s).
void SetKeepalive(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 20'000);
}

void SetLimits(grpc::ServerBuilder* builder, uint64_t message_limit_bytes) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(message_limit_bytes));
  builder->SetMaxSendMessageSize(static_cast<int>(message_limit_bytes));
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataLimitBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                              kStreamsPerConnection);
  // Off, since a small compressed message could exceed every limit.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

std::string AddressOf(const ApiOptions& options) {
  const bool ip6 = absl::StrContains(options.listen, ':');
  return absl::StrCat(ip6 ? "[" : "", options.listen, ip6 ? "]" : "", ":",
                      options.port);
}

absl::Status CannotServe(const ApiOptions& options, const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat(
      "cannot serve gRPC on ", AddressOf(options), ": ",
      std::string(why.message()),
      "; is the address taken or not ours? choose another --grpc-port"));
}

}  // namespace

class ApiServer::Impl {
 public:
  Impl(const ApiOptions& options, ApiDependencies dependencies)
      : access_(dependencies.control, dependencies.gate),
        tenants_(dependencies.control, dependencies.gate),
        jobs_(dependencies.control, dependencies.blobs, &access_,
              options.limits.watch_streams),
        models_({.control = dependencies.control,
                 .blobs = dependencies.blobs,
                 .folders = dependencies.folders,
                 .access = &access_,
                 .tenants = &tenants_},
                options.limits),
        datasets_(dependencies.control, dependencies.blobs, &tenants_,
                  options.limits),
        devices_(MakeDeviceService(dependencies.control, dependencies.blobs,
                                   &tenants_, options.limits.watch_streams)),
        admin_(dependencies.control, &tenants_, std::move(dependencies.hooks),
               options.limits),
        uploads_(dependencies.blobs, &tenants_),
        usage_(dependencies.control, &access_),
        reservations_(dependencies.control),
        auth_(dependencies.control, dependencies.gate),
        gate_(dependencies.gate),
        more_services_(std::move(dependencies.more_services)),
        message_bytes_(options.limits.message_bytes) {}

  absl::Status Start(const ApiOptions& options) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    SetKeepalive(&builder);
    SetLimits(&builder, options.limits.message_bytes);
    builder.experimental().SetInterceptorCreators(CallAuditors(gate_));
    auto port = GrpcPort::Listen(options.listen, options.port);
    if (!port.ok()) return CannotServe(options, port.status());
    port_ = *std::move(port);
    port_->AddTo(&builder,
                 ServerCredentialsOf(options.tls, options.tls_reload_seconds),
                 gate_);
    if (!options.socket.empty()) {
      builder.AddListeningPort(absl::StrCat("unix:", options.socket),
                               GuardedPlainCredentials(SocketGuard()));
    }
    for (const NamedService& one : Services()) {
      builder.RegisterService(one.service);
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot make the socket ",
                                                 options.socket,
                                                 "; choose another --socket"));
    }
    port_->Start();
    return absl::OkStatus();
  }

  void Stop(absl::Duration grace) {
    std::call_once(stopped_, [&] {
      // Streams first: they never end by themselves, so that Shutdown would
      // wait for the whole grace period.
      jobs_.StopStreams();
      devices_->StopStreams();
      datasets_.StopStreams();
      models_.StopStreams();
      admin_.StopStreams();
      port_->Stop();
      server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
      server_->Wait();
    });
  }

  // Returns a channel that takes messages as large as the server sends.
  std::shared_ptr<grpc::Channel> InProcessChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_));
    return server_->InProcessChannel(arguments);
  }

  int port() const { return port_->port(); }

  // Sets the health of the server, which has no name, and of each service.
  void SetServing(bool serving) {
    grpc::HealthCheckServiceInterface* health =
        server_->GetHealthCheckService();
    for (const NamedService& one : Services()) {
      health->SetServingStatus(one.name, serving);
    }
    health->SetServingStatus(serving);
  }

 private:
  // Returns null if everybody may call everything.
  std::shared_ptr<MethodGuard> SocketGuard() const {
    if (gate_ == nullptr || !gate_->checks_calls()) return nullptr;
    return std::make_shared<MethodGuard>(gate_, Door::kSocket);
  }

  // Returns the services in the order of registration.
  std::vector<NamedService> Services() {
    std::vector<NamedService> services = {
        {v1::JobService::service_full_name(), &jobs_},
        {v1::ModelService::service_full_name(), &models_},
        {v1::DatasetService::service_full_name(), &datasets_},
        {v1::DeviceService::service_full_name(), &devices_->service()},
        {v1::AdminService::service_full_name(), &admin_},
        {v1::UploadService::service_full_name(), &uploads_},
        {v1::UsageService::service_full_name(), &usage_},
        {v1::ReservationService::service_full_name(), &reservations_},
        {v1::AuthService::service_full_name(), &auth_}};
    services.insert(services.end(), more_services_.begin(),
                    more_services_.end());
    return services;
  }

  const JobAccess access_;
  const TenantAccess tenants_;
  JobService jobs_;
  ModelService models_;
  DatasetService datasets_;
  const std::unique_ptr<DeviceService> devices_;
  AdminService admin_;
  UploadService uploads_;
  UsageService usage_;
  ReservationService reservations_;
  AuthService auth_;
  AccessGate* const gate_;
  const std::vector<NamedService> more_services_;
  const uint64_t message_bytes_;
  std::unique_ptr<GrpcPort> port_;
  std::unique_ptr<grpc::Server> server_;
  std::once_flag stopped_;
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApiServer::~ApiServer() { Stop(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Start(
    const ApiOptions& options, ApiDependencies dependencies) {
  auto impl = std::make_unique<Impl>(options, std::move(dependencies));
  const absl::Status started = impl->Start(options);
  if (!started.ok()) return started;
  auto server = absl::WrapUnique(new ApiServer(std::move(impl)));
  server->SetServing(true);
  return server;
}

uint16_t ApiServer::port() const {
  return static_cast<uint16_t>(impl_->port());
}

void ApiServer::SetServing(bool serving) { impl_->SetServing(serving); }

std::shared_ptr<grpc::Channel> ApiServer::InProcessChannel() {
  return impl_->InProcessChannel();
}

void ApiServer::Stop(absl::Duration grace) { impl_->Stop(grace); }

}  // namespace gpupool::server
