#include "client/client.h"

#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/channel_credentials.h"
#include "client/connection.h"
#include "client/local_socket.h"
#include "client/server_defaults.h"
#include "client/token.h"
#include "gpupool/v1/admin.grpc.pb.h"
#include "gpupool/v1/auth.grpc.pb.h"
#include "gpupool/v1/dataset.grpc.pb.h"
#include "gpupool/v1/device.grpc.pb.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "gpupool/v1/reservation.grpc.pb.h"
#include "gpupool/v1/upload.grpc.pb.h"
#include "gpupool/v1/usage.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"

namespace gpupool::client {

namespace {

// Returns the value, or "" when the variable is not set.
std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string DefaultAddress() {
  const std::string address = FromEnvironment("GPUPOOL_ADDRESS");
  if (!address.empty()) return address;
  const std::string socket = DefaultSocket();
  return IsOurSocket(socket) ? absl::StrCat("unix:", socket)
                             : DefaultServerAddress();
}

TlsOptions DefaultTls() {
  return {.ca = FromEnvironment("GPUPOOL_CA"),
          .certificate = FromEnvironment("GPUPOOL_CLIENT_CERT"),
          .key = FromEnvironment("GPUPOOL_CLIENT_KEY")};
}

TokenOptions DefaultToken() {
  return {.token = FromEnvironment("GPUPOOL_TOKEN"),
          .file = FromEnvironment("GPUPOOL_TOKEN_FILE")};
}

std::string NewRequestId() {
  std::array<unsigned char, 16> bytes;
  // OpenSSL may have no entropy yet. An id must differ from others, and need
  // not be secret.
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) {
    std::random_device device;
    for (unsigned char& byte : bytes) {
      byte = static_cast<unsigned char>(device());
    }
  }
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

struct Client::Impl {
  Impl(ClientOptions client_options,
       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : options(std::move(client_options)),
        connection(options, credentials),
        jobs(v1::JobService::NewStub(connection.channel())),
        datasets(v1::DatasetService::NewStub(connection.channel())),
        models(v1::ModelService::NewStub(connection.channel())),
        devices(v1::DeviceService::NewStub(connection.channel())),
        admin(v1::AdminService::NewStub(connection.channel())),
        uploads(v1::UploadService::NewStub(connection.channel())),
        auth(v1::AuthService::NewStub(connection.channel())),
        usage(v1::UsageService::NewStub(connection.channel())),
        reservations(v1::ReservationService::NewStub(connection.channel())),
        inference(
            inference::GRPCInferenceService::NewStub(connection.channel())) {}

  const ClientOptions options;
  Connection connection;
  const std::unique_ptr<v1::JobService::Stub> jobs;
  const std::unique_ptr<v1::DatasetService::Stub> datasets;
  const std::unique_ptr<v1::ModelService::Stub> models;
  const std::unique_ptr<v1::DeviceService::Stub> devices;
  const std::unique_ptr<v1::AdminService::Stub> admin;
  const std::unique_ptr<v1::UploadService::Stub> uploads;
  const std::unique_ptr<v1::AuthService::Stub> auth;
  const std::unique_ptr<v1::UsageService::Stub> usage;
  const std::unique_ptr<v1::ReservationService::Stub> reservations;
  const std::unique_ptr<::inference::GRPCInferenceService::Stub> inference;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  absl::StatusOr<std::string> address = CompleteAddress(options.address);
  if (!address.ok()) return address.status();
  options.address = *std::move(address);
  absl::StatusOr<std::string> token = TokenOf(options.token);
  if (!token.ok()) return token.status();
  options.token.token = *std::move(token);
  if (!options.token.token.empty()) {
    const absl::Status safe = CheckTokenIsSafe(options);
    if (!safe.ok()) return safe;
  }
  // A socket has no TLS, and needs none.
  if (IsSocketAddress(options.address)) options.tls = {};
  const auto credentials = ChannelCredentialsOf(options.tls);
  if (!credentials.ok()) return credentials.status();
  return std::unique_ptr<Client>(
      new Client(std::make_unique<Impl>(std::move(options), *credentials)));
}

const std::string& Client::address() const { return impl_->options.address; }
const ClientOptions& Client::options() const { return impl_->options; }
Connection& Client::connection() { return impl_->connection; }

absl::StatusOr<v1::Job> Client::SubmitJob(const v1::SubmitJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::SubmitJob,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::Job> Client::GetJob(const v1::GetJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::GetJob,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(
    const v1::ListJobsRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::ListJobs,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::Job> Client::CancelJob(const v1::CancelJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::CancelJob,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::Job> Client::HoldJob(const v1::HoldJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::HoldJob,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::Job> Client::ReleaseJob(
    const v1::ReleaseJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::ReleaseJob,
                                request, Connection::kRepeat);
}

// Not repeated: a second call could stop the attempt that the first one
// started.
absl::StatusOr<v1::Job> Client::RequeueJob(
    const v1::RequeueJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::RequeueJob,
                                request, Connection::kOnce);
}

absl::StatusOr<v1::JobExplanation> Client::ExplainJob(
    const v1::ExplainJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::ExplainJob,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::PlanJobResponse> Client::PlanJob(
    const v1::PlanJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::PlanJob,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::JobArray> Client::SubmitArray(
    const v1::SubmitJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs,
                                &v1::JobService::Stub::SubmitArray, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::JobArray> Client::GetArray(
    const v1::GetJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::GetArray,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::ListArraysResponse> Client::ListArrays(
    const v1::ListArraysRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::ListArrays,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::JobArray> Client::CancelArray(
    const v1::CancelJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs,
                                &v1::JobService::Stub::CancelArray, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::JobArray> Client::HoldArray(
    const v1::HoldJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs, &v1::JobService::Stub::HoldArray,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::JobArray> Client::ReleaseArray(
    const v1::ReleaseJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs,
                                &v1::JobService::Stub::ReleaseArray, request,
                                Connection::kRepeat);
}

// Not repeated, for the same reason as in RequeueJob.
absl::StatusOr<v1::JobArray> Client::RequeueArray(
    const v1::RequeueJobRequest& request) {
  return impl_->connection.Call(*impl_->jobs,
                                &v1::JobService::Stub::RequeueArray, request,
                                Connection::kOnce);
}

absl::Status Client::StreamArray(
    const v1::GetJobRequest& request, std::stop_token stop,
    std::function<bool(const v1::JobArray&)> on_change) {
  return impl_->connection.ReadStream(
      *impl_->jobs, &v1::JobService::Stub::WatchArray, request,
      {.on_message = on_change, .stop = std::move(stop)});
}

absl::StatusOr<v1::GetUsageResponse> Client::GetUsage(
    const v1::GetUsageRequest& request) {
  return impl_->connection.Call(*impl_->usage,
                                &v1::UsageService::Stub::GetUsage, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::GetQuotaResponse> Client::GetQuota(
    const v1::GetQuotaRequest& request) {
  return impl_->connection.Call(*impl_->usage,
                                &v1::UsageService::Stub::GetQuota, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::Reservation> Client::CreateReservation(
    const v1::CreateReservationRequest& request) {
  return impl_->connection.Call(
      *impl_->reservations, &v1::ReservationService::Stub::CreateReservation,
      request, Connection::kRepeat);
}

absl::StatusOr<v1::ListReservationsResponse> Client::ListReservations(
    const v1::ListReservationsRequest& request) {
  return impl_->connection.Call(*impl_->reservations,
                                &v1::ReservationService::Stub::ListReservations,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::Reservation> Client::CancelReservation(
    const v1::CancelReservationRequest& request) {
  return impl_->connection.Call(
      *impl_->reservations, &v1::ReservationService::Stub::CancelReservation,
      request, Connection::kRepeat);
}

absl::StatusOr<v1::ListDatasetsResponse> Client::ListDatasets(
    const v1::ListDatasetsRequest& request) {
  return impl_->connection.Call(*impl_->datasets,
                                &v1::DatasetService::Stub::ListDatasets,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::Dataset> Client::GetDataset(
    const v1::GetDatasetRequest& request) {
  return impl_->connection.Call(*impl_->datasets,
                                &v1::DatasetService::Stub::GetDataset, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::DeleteDatasetResponse> Client::DeleteDataset(
    const v1::DeleteDatasetRequest& request) {
  return impl_->connection.Call(*impl_->datasets,
                                &v1::DatasetService::Stub::DeleteDataset,
                                request, Connection::kOnce);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(
    const v1::ListModelsRequest& request) {
  return impl_->connection.Call(*impl_->models,
                                &v1::ModelService::Stub::ListModels, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::Model> Client::GetModel(const v1::GetModelRequest& request) {
  return impl_->connection.Call(*impl_->models,
                                &v1::ModelService::Stub::GetModel, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::Model> Client::ShareModel(
    const v1::ShareModelRequest& request) {
  return impl_->connection.Call(*impl_->models,
                                &v1::ModelService::Stub::ShareModel, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::ModelVersion> Client::PromoteCheckpoint(
    const v1::PromoteCheckpointRequest& request) {
  return impl_->connection.Call(
      *impl_->models, &v1::ModelService::Stub::PromoteCheckpoint, request,
      {Connection::kOnce, TimeLimit(impl_->options, request.wait())});
}

absl::StatusOr<v1::ModelVersion> Client::LoadVersion(
    const v1::LoadVersionRequest& request) {
  return impl_->connection.Call(
      *impl_->models, &v1::ModelService::Stub::LoadVersion, request,
      {Connection::kRepeat, TimeLimit(impl_->options, request.wait())});
}

absl::StatusOr<v1::ModelVersion> Client::UnloadVersion(
    const v1::UnloadVersionRequest& request) {
  return impl_->connection.Call(
      *impl_->models, &v1::ModelService::Stub::UnloadVersion, request,
      {Connection::kRepeat, TimeLimit(impl_->options, request.wait())});
}

absl::StatusOr<v1::DeleteVersionResponse> Client::DeleteVersion(
    const v1::DeleteVersionRequest& request) {
  return impl_->connection.Call(*impl_->models,
                                &v1::ModelService::Stub::DeleteVersion, request,
                                Connection::kOnce);
}

absl::StatusOr<v1::PlanModelResponse> Client::PlanModel(
    const v1::PlanModelRequest& request) {
  return impl_->connection.Call(*impl_->models,
                                &v1::ModelService::Stub::PlanModel, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::ListDevicesResponse> Client::ListDevices(
    const v1::ListDevicesRequest& request) {
  return impl_->connection.Call(*impl_->devices,
                                &v1::DeviceService::Stub::ListDevices, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::Device> Client::DrainDevice(
    const v1::DrainDeviceRequest& request) {
  return impl_->connection.Call(*impl_->devices,
                                &v1::DeviceService::Stub::DrainDevice, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::Device> Client::ResumeDevice(
    const v1::ResumeDeviceRequest& request) {
  return impl_->connection.Call(*impl_->devices,
                                &v1::DeviceService::Stub::ResumeDevice, request,
                                Connection::kRepeat);
}

absl::Status Client::StreamJobProfile(
    const v1::ProfileJobRequest& request,
    std::function<bool(const v1::ProfileJobResponse&)> on_message) {
  return impl_->connection.ReadStream(*impl_->jobs,
                                      &v1::JobService::Stub::ProfileJob,
                                      request, {.on_message = on_message});
}

absl::Status Client::StreamModelProfile(
    const v1::ProfileModelRequest& request,
    std::function<bool(const v1::ProfileModelResponse&)> on_message) {
  return impl_->connection.ReadStream(*impl_->models,
                                      &v1::ModelService::Stub::ProfileModel,
                                      request, {.on_message = on_message});
}

absl::Status Client::StreamMemoryDump(
    const v1::DumpMemoryRequest& request,
    std::function<bool(const v1::DumpMemoryResponse&)> on_message) {
  return impl_->connection.ReadStream(*impl_->devices,
                                      &v1::DeviceService::Stub::DumpMemory,
                                      request, {.on_message = on_message});
}

absl::StatusOr<v1::ServerInfo> Client::GetServerInfo(
    const v1::GetServerInfoRequest& request) {
  return impl_->connection.Call(*impl_->admin,
                                &v1::AdminService::Stub::GetServerInfo, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::DrainResponse> Client::Drain(
    const v1::DrainRequest& request) {
  return impl_->connection.Call(*impl_->admin, &v1::AdminService::Stub::Drain,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::ReconcileState> Client::GetReconcileState(
    const v1::GetReconcileStateRequest& request) {
  return impl_->connection.Call(*impl_->admin,
                                &v1::AdminService::Stub::GetReconcileState,
                                request, Connection::kRepeat);
}

absl::StatusOr<v1::DatabaseReport> Client::CheckDatabase(
    const v1::CheckDatabaseRequest& request) {
  return impl_->connection.Call(
      *impl_->admin, &v1::AdminService::Stub::CheckDatabase, request,
      {Connection::kRepeat, TimeLimit(impl_->options, true)});
}

absl::StatusOr<v1::CreateTokenResponse> Client::CreateToken(
    const v1::CreateTokenRequest& request) {
  return impl_->connection.Call(*impl_->auth,
                                &v1::AuthService::Stub::CreateToken, request,
                                Connection::kOnce);
}

absl::StatusOr<v1::ListTokensResponse> Client::ListTokens(
    const v1::ListTokensRequest& request) {
  return impl_->connection.Call(*impl_->auth,
                                &v1::AuthService::Stub::ListTokens, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::Token> Client::RevokeToken(
    const v1::RevokeTokenRequest& request) {
  return impl_->connection.Call(*impl_->auth,
                                &v1::AuthService::Stub::RevokeToken, request,
                                Connection::kRepeat);
}

absl::Status Client::StreamBackup(
    const v1::BackUpDatabaseRequest& request,
    std::function<bool(const v1::BackUpDatabaseResponse&)> on_message) {
  return impl_->connection.ReadStream(*impl_->admin,
                                      &v1::AdminService::Stub::BackUpDatabase,
                                      request, {.on_message = on_message});
}

absl::StatusOr<inference::ModelReadyResponse> Client::ModelReady(
    const inference::ModelReadyRequest& request) {
  return impl_->connection.Call(
      *impl_->inference, &inference::GRPCInferenceService::Stub::ModelReady,
      request, Connection::kRepeat);
}

absl::StatusOr<inference::ModelMetadataResponse> Client::ModelMetadata(
    const inference::ModelMetadataRequest& request) {
  return impl_->connection.Call(
      *impl_->inference, &inference::GRPCInferenceService::Stub::ModelMetadata,
      request, Connection::kRepeat);
}

absl::StatusOr<inference::ModelInferResponse> Client::ModelInfer(
    const inference::ModelInferRequest& request) {
  return impl_->connection.Call(
      *impl_->inference, &inference::GRPCInferenceService::Stub::ModelInfer,
      request, Connection::kRepeat);
}

absl::Status Client::StreamJob(
    const v1::WatchJobRequest& request, std::stop_token stop,
    std::function<bool(const v1::JobEvent&)> on_event) {
  return impl_->connection.ReadStream(
      *impl_->jobs, &v1::JobService::Stub::WatchJob, request,
      {.on_message = on_event, .stop = std::move(stop)});
}

absl::Status Client::WatchDevices(
    const v1::WatchDevicesRequest& request, std::stop_token stop,
    std::function<bool(const v1::ListDevicesResponse&)> on_devices) {
  return impl_->connection.ReadStream(
      *impl_->devices, &v1::DeviceService::Stub::WatchDevices, request,
      {.on_message = on_devices, .stop = std::move(stop)});
}

absl::StatusOr<v1::Dataset> Client::StreamDataset(
    std::function<absl::StatusOr<bool>(v1::UploadDatasetRequest&)> next) {
  return impl_->connection.WriteStream<v1::Dataset>(
      *impl_->datasets, &v1::DatasetService::Stub::UploadDataset, next,
      impl_->options.upload_stop);
}

absl::StatusOr<v1::Upload> Client::GetUpload(
    const v1::GetUploadRequest& request) {
  return impl_->connection.Call(*impl_->uploads,
                                &v1::UploadService::Stub::GetUpload, request,
                                Connection::kRepeat);
}

absl::StatusOr<v1::ModelFile> Client::StreamModelFile(
    std::function<absl::StatusOr<bool>(v1::UploadModelFileRequest&)> next) {
  return impl_->connection.WriteStream<v1::ModelFile>(
      *impl_->models, &v1::ModelService::Stub::UploadModelFile, next,
      impl_->options.upload_stop);
}

absl::StatusOr<v1::ModelVersion> Client::StreamModel(
    std::function<absl::StatusOr<bool>(v1::UploadModelRequest&)> next) {
  return impl_->connection.WriteStream<v1::ModelVersion>(
      *impl_->models, &v1::ModelService::Stub::UploadModel, next,
      impl_->options.upload_stop);
}

absl::Status Client::StreamExport(
    const v1::ExportModelRequest& request,
    std::function<bool(const v1::ExportModelResponse&)> on_message) {
  return impl_->connection.ReadStream(*impl_->models,
                                      &v1::ModelService::Stub::ExportModel,
                                      request, {.on_message = on_message});
}

}  // namespace gpupool::client
