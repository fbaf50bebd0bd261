// A client of a gpupool server, with one typed function per remote call. Each
// call has a time limit. While the server is unavailable, calls that may be
// repeated without harm are retried with growing waits.
//
//   auto client = Client::Create({.address = DefaultAddress()});
//   absl::StatusOr<v1::Job> job = (*client)->GetJob(request);
//
// Status codes are the server's. The client adds Unavailable ("cannot reach a
// server at ...") and DeadlineExceeded (no answer in time).
//
// Thread-safety: all functions may be called from several threads at once.
// Ownership: a Client owns its connection. Nothing refers back to it.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/server_defaults.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/auth.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "gpupool/v1/upload.pb.h"
#include "gpupool/v1/usage.pb.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
class ModelMetadataRequest;
class ModelMetadataResponse;
class ModelReadyRequest;
class ModelReadyResponse;
}  // namespace inference

namespace gpupool::client {

class Connection;

// Returns GPUPOOL_ADDRESS if it is set and not empty. Else returns "unix:" and
// DefaultSocket() if a server of this user or of root listens there, which is
// one that was started in the current folder. Else returns
// DefaultServerAddress().
std::string DefaultAddress();

// Adds kDefaultGrpcPort to an address without a port. InvalidArgument for an
// empty address, for one with a scheme such as "http://", and for "unix:PATH"
// with a path that is empty or too long.
absl::StatusOr<std::string> CompleteAddress(absl::string_view address);

// Returns 32 random hex digits, which identify one intent: a repeated SubmitJob
// with the same id returns the job that the first one made.
std::string NewRequestId();

// Files in PEM form. Without `ca` the connection is plain. A connection to a
// socket is always plain.
struct TlsOptions {
  std::string ca;           // authorities of which one has signed the server
  std::string certificate;  // of the client; empty: none
  std::string key;          // of `certificate`
};

// Returns the files that GPUPOOL_CA, GPUPOOL_CLIENT_CERT and GPUPOOL_CLIENT_KEY
// name. An empty variable is none.
TlsOptions DefaultTls();

// The token by which the server knows the client. It is sent with each call.
struct TokenOptions {
  std::string token;  // empty: the one in `file`
  std::string file;   // empty: none
  // Whether the token may be sent to another machine without TLS, where others
  // can read it.
  bool insecure = false;
};

// Returns the token of GPUPOOL_TOKEN and the file that GPUPOOL_TOKEN_FILE
// names. An empty variable is none.
TokenOptions DefaultToken();

struct ClientOptions {
  std::string address = DefaultServerAddress();  // host, host:port or unix:PATH
  TlsOptions tls = {};
  TokenOptions token = {};
  absl::Duration call_timeout = absl::Seconds(30);  // of one call, all tries
  absl::Duration wait_timeout = absl::Minutes(5);   // of calls with `wait`
  absl::Duration retry_window = absl::Seconds(3);   // 0: never retry
  // Gets a line for people when an upload breaks, and when it goes on. Called
  // in the thread that uploads.
  std::function<void(const std::string& line)> upload_notice = {};
  std::stop_token upload_stop = {};  // ends uploads with Cancelled
  // Gets the bytes that were read of a long file, and all its bytes, while its
  // digest is computed: once for each percent. Called in the thread that
  // uploads.
  std::function<void(const std::string& file, uint64_t read, uint64_t total)>
      upload_reading = {};
};

class Client {
 public:
  // Makes a client, which does not connect yet. InvalidArgument for a malformed
  // address, for files of `tls` and `token` that cannot be used, and for a
  // token that would be sent to another machine in the clear.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::string& address() const;
  const ClientOptions& options() const;
  // For device_calls.h.
  Connection& connection();

  // Jobs. SubmitJob is retried with the same request_id.
  absl::StatusOr<v1::Job> SubmitJob(const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::Job> GetJob(const v1::GetJobRequest& request);
  absl::StatusOr<v1::ListJobsResponse> ListJobs(
      const v1::ListJobsRequest& request);
  absl::StatusOr<v1::Job> CancelJob(const v1::CancelJobRequest& request);
  absl::StatusOr<v1::Job> HoldJob(const v1::HoldJobRequest& request);
  absl::StatusOr<v1::Job> ReleaseJob(const v1::ReleaseJobRequest& request);
  absl::StatusOr<v1::Job> RequeueJob(const v1::RequeueJobRequest& request);
  absl::StatusOr<v1::JobExplanation> ExplainJob(
      const v1::ExplainJobRequest& request);
  absl::StatusOr<v1::PlanJobResponse> PlanJob(
      const v1::PlanJobRequest& request);

  // Arrays of jobs. SubmitArray is retried with the same request_id.
  absl::StatusOr<v1::JobArray> SubmitArray(const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::JobArray> GetArray(const v1::GetJobRequest& request);
  absl::StatusOr<v1::ListArraysResponse> ListArrays(
      const v1::ListArraysRequest& request);
  absl::StatusOr<v1::JobArray> CancelArray(const v1::CancelJobRequest& request);
  absl::StatusOr<v1::JobArray> HoldArray(const v1::HoldJobRequest& request);
  absl::StatusOr<v1::JobArray> ReleaseArray(
      const v1::ReleaseJobRequest& request);
  absl::StatusOr<v1::JobArray> RequeueArray(
      const v1::RequeueJobRequest& request);
  // Behaves as StreamJob does.
  absl::Status StreamArray(const v1::GetJobRequest& request,
                           std::stop_token stop,
                           std::function<bool(const v1::JobArray&)> on_change);

  absl::StatusOr<v1::GetUsageResponse> GetUsage(
      const v1::GetUsageRequest& request);
  absl::StatusOr<v1::GetQuotaResponse> GetQuota(
      const v1::GetQuotaRequest& request);
  // Reads one stream, without retries. Calls `on_event` for each event until
  //   the server ends the stream (returns its status),
  //   `on_event` returns false (returns Ok), or
  //   `stop` is requested (returns Cancelled).
  // watch.h has the retries.
  absl::Status StreamJob(const v1::WatchJobRequest& request,
                         std::stop_token stop,
                         std::function<bool(const v1::JobEvent&)> on_event);

  // Datasets. `next` fills the next message. It returns false at the end, or
  // the error that ends the upload. Not retried: see upload.h.
  absl::StatusOr<v1::Dataset> StreamDataset(
      std::function<absl::StatusOr<bool>(v1::UploadDatasetRequest&)> next);
  absl::StatusOr<v1::ListDatasetsResponse> ListDatasets(
      const v1::ListDatasetsRequest& request);
  absl::StatusOr<v1::Dataset> GetDataset(const v1::GetDatasetRequest& request);
  absl::StatusOr<v1::DeleteDatasetResponse> DeleteDataset(
      const v1::DeleteDatasetRequest& request);

  // Returns how much of an upload the server has; see resumable_upload.h.
  absl::StatusOr<v1::Upload> GetUpload(const v1::GetUploadRequest& request);

  // Models. Uploads and exports are not retried here: see
  // model_files.h.
  absl::StatusOr<v1::ModelFile> StreamModelFile(
      std::function<absl::StatusOr<bool>(v1::UploadModelFileRequest&)> next);
  absl::StatusOr<v1::ModelVersion> StreamModel(
      std::function<absl::StatusOr<bool>(v1::UploadModelRequest&)> next);
  absl::Status StreamExport(
      const v1::ExportModelRequest& request,
      std::function<bool(const v1::ExportModelResponse&)> on_message);
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request);
  absl::StatusOr<v1::Model> GetModel(const v1::GetModelRequest& request);
  absl::StatusOr<v1::Model> ShareModel(const v1::ShareModelRequest& request);
  absl::StatusOr<v1::ModelVersion> PromoteCheckpoint(
      const v1::PromoteCheckpointRequest& request);
  absl::StatusOr<v1::ModelVersion> LoadVersion(
      const v1::LoadVersionRequest& request);
  absl::StatusOr<v1::ModelVersion> UnloadVersion(
      const v1::UnloadVersionRequest& request);
  absl::StatusOr<v1::DeleteVersionResponse> DeleteVersion(
      const v1::DeleteVersionRequest& request);
  absl::StatusOr<v1::PlanModelResponse> PlanModel(
      const v1::PlanModelRequest& request);

  // Inference over the open inference protocol.
  absl::StatusOr<inference::ModelReadyResponse> ModelReady(
      const inference::ModelReadyRequest& request);
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(
      const inference::ModelMetadataRequest& request);
  absl::StatusOr<inference::ModelInferResponse> ModelInfer(
      const inference::ModelInferRequest& request);

  // Devices. WatchDevices behaves as StreamJob does. Calls about a device's
  // memory are in device_calls.h.
  absl::StatusOr<v1::ListDevicesResponse> ListDevices(
      const v1::ListDevicesRequest& request);
  absl::StatusOr<v1::Device> DrainDevice(const v1::DrainDeviceRequest& request);
  absl::StatusOr<v1::Device> ResumeDevice(
      const v1::ResumeDeviceRequest& request);
  // Not retried: see profile_file.h and memory_file.h.
  absl::Status StreamJobProfile(
      const v1::ProfileJobRequest& request,
      std::function<bool(const v1::ProfileJobResponse&)> on_message);
  absl::Status StreamModelProfile(
      const v1::ProfileModelRequest& request,
      std::function<bool(const v1::ProfileModelResponse&)> on_message);
  absl::Status StreamMemoryDump(
      const v1::DumpMemoryRequest& request,
      std::function<bool(const v1::DumpMemoryResponse&)> on_message);
  absl::Status WatchDevices(
      const v1::WatchDevicesRequest& request, std::stop_token stop,
      std::function<bool(const v1::ListDevicesResponse&)> on_devices);

  // Reservations. CreateReservation is retried with the same request_id.
  absl::StatusOr<v1::Reservation> CreateReservation(
      const v1::CreateReservationRequest& request);
  absl::StatusOr<v1::ListReservationsResponse> ListReservations(
      const v1::ListReservationsRequest& request);
  absl::StatusOr<v1::Reservation> CancelReservation(
      const v1::CancelReservationRequest& request);

  // Administration.
  absl::StatusOr<v1::ServerInfo> GetServerInfo(
      const v1::GetServerInfoRequest& request);
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request);
  absl::StatusOr<v1::ReconcileState> GetReconcileState(
      const v1::GetReconcileStateRequest& request);
  absl::StatusOr<v1::DatabaseReport> CheckDatabase(
      const v1::CheckDatabaseRequest& request);
  // Not retried, since a lost answer has the only copy of the secret.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(
      const v1::ListTokensRequest& request);
  absl::StatusOr<v1::Token> RevokeToken(const v1::RevokeTokenRequest& request);
  // Not retried: see backup_file.h.
  absl::Status StreamBackup(
      const v1::BackUpDatabaseRequest& request,
      std::function<bool(const v1::BackUpDatabaseResponse&)> on_message);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::client
