#include "tests/client/testing/fake_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gpupool/v1/admin.grpc.pb.h"
#include "gpupool/v1/dataset.grpc.pb.h"
#include "gpupool/v1/device.grpc.pb.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "gpupool/v1/reservation.grpc.pb.h"
#include "gpupool/v1/upload.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/client/testing/fake_tokens.h"
#include "tests/client/testing/fake_usage.h"

namespace gpupool::client {
namespace {

using grpc::ServerContext;
using grpc::Status;

std::shared_ptr<grpc::ServerCredentials> Credentials(
    const tls::TlsFiles& files) {
  if (!files.on()) return grpc::InsecureServerCredentials();
  const auto pem = tls::ReadServerFiles(files, absl::Now());
  grpc::SslServerCredentialsOptions options(
      files.client_ca.empty()
          ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
          : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pem->client_authorities;
  options.pem_key_cert_pairs.push_back({pem->own.key, pem->own.certificate});
  return grpc::SslServerCredentials(options);
}

// Counts the call and returns the status that the test has set for it.
Status Enter(FakeState& state, const std::string& rpc) {
  absl::MutexLock lock(&state.mutex);
  ++state.calls[rpc];
  std::vector<absl::Status>& failures = state.failures[rpc];
  if (failures.empty()) return Status::OK;
  const absl::Status failure = failures.front();
  failures.erase(failures.begin());
  return Status(static_cast<grpc::StatusCode>(failure.code()),
                std::string(failure.message()));
}

// Returns the value under `key`, or NotFound.
template <typename Map, typename Key, typename Message>
Status Find(const Map& map, const Key& key, const char* what,
            Message* message) {
  const auto found = map.find(key);
  if (found == map.end()) {
    return Status(grpc::StatusCode::NOT_FOUND,
                  std::string("there is no such ") + what);
  }
  *message = found->second;
  return Status::OK;
}

#define ENTER(rpc)                                                        \
  if (Status entered = Enter(state_, rpc); !entered.ok()) return entered; \
  absl::MutexLock lock(&state_.mutex)

class Jobs final : public v1::JobService::Service {
 public:
  explicit Jobs(FakeState& state) : state_(state) {}

  Status SubmitJob(ServerContext*, const v1::SubmitJobRequest* request,
                   v1::Job* job) override {
    ENTER("SubmitJob");
    state_.submitted = *request;
    for (const auto& [id, known] : state_.jobs) {
      if (known.request_id() != request->request_id()) continue;
      *job = known;
      return Status::OK;
    }
    *job = state_.outcome;
    job->set_id(state_.jobs.size() + 1);
    *job->mutable_spec() = request->spec();
    job->set_request_id(request->request_id());
    state_.events[job->id()] = state_.script;
    state_.jobs[job->id()] = *job;
    job->set_state(v1::QUEUED);
    return Status::OK;
  }

  Status GetJob(ServerContext*, const v1::GetJobRequest* request,
                v1::Job* job) override {
    ENTER("GetJob");
    return Find(state_.jobs, request->id(), "job", job);
  }

  // Returns pages of at most two jobs, so that paging is tested.
  Status ListJobs(ServerContext*, const v1::ListJobsRequest* request,
                  v1::ListJobsResponse* response) override {
    ENTER("ListJobs");
    state_.listed = *request;
    uint64_t before = UINT64_MAX;
    if (!request->page_token().empty())
      before = std::stoull(request->page_token());
    const int most = std::min(2, request->page_size());
    for (auto it = state_.jobs.rbegin(); it != state_.jobs.rend(); ++it) {
      if (it->first >= before) continue;
      if (!request->name().empty() &&
          it->second.spec().name() != request->name()) {
        continue;
      }
      if (response->jobs_size() == most) {
        response->set_next_page_token(std::to_string(it->first + 1));
        break;
      }
      *response->add_jobs() = it->second;
    }
    return Status::OK;
  }

  Status CancelJob(ServerContext*, const v1::CancelJobRequest* request,
                   v1::Job* job) override {
    ENTER("CancelJob");
    state_.jobs[request->id()].set_state(v1::CANCELLED);
    *job = state_.jobs[request->id()];
    return Status::OK;
  }

  Status SubmitArray(ServerContext*, const v1::SubmitJobRequest* request,
                     v1::JobArray* array) override {
    ENTER("SubmitArray");
    state_.submitted = *request;
    array->set_id(7);
    *array->mutable_spec() = request->spec();
    array->set_request_id(request->request_id());
    array->set_tasks(2);
    state_.arrays[7] = *array;
    return Status::OK;
  }

  Status GetArray(ServerContext*, const v1::GetJobRequest* request,
                  v1::JobArray* array) override {
    ENTER("GetArray");
    return Find(state_.arrays, request->id(), "array", array);
  }

  Status ListArrays(ServerContext*, const v1::ListArraysRequest*,
                    v1::ListArraysResponse* response) override {
    ENTER("ListArrays");
    for (auto it = state_.arrays.rbegin(); it != state_.arrays.rend(); ++it) {
      *response->add_arrays() = it->second;
    }
    return Status::OK;
  }

  Status CancelArray(ServerContext*, const v1::CancelJobRequest* request,
                     v1::JobArray* array) override {
    ENTER("CancelArray");
    return Find(state_.arrays, request->id(), "array", array);
  }

  Status HoldArray(ServerContext*, const v1::HoldJobRequest* request,
                   v1::JobArray* array) override {
    ENTER("HoldArray");
    return Find(state_.arrays, request->id(), "array", array);
  }

  Status WatchArray(ServerContext*, const v1::GetJobRequest*,
                    grpc::ServerWriter<v1::JobArray>* writer) override {
    ENTER("WatchArray");
    if (state_.array_script.empty()) return Status::OK;
    writer->Write(state_.array_script.front());
    state_.array_script.erase(state_.array_script.begin());
    if (state_.array_script.empty()) return Status::OK;
    return Status(grpc::StatusCode::UNAVAILABLE, "restarting");
  }

  Status PlanJob(ServerContext*, const v1::PlanJobRequest*,
                 v1::PlanJobResponse* response) override {
    ENTER("PlanJob");
    *response = state_.plan;
    return Status::OK;
  }

  // Sends the trace in two pieces. The profile of cycle n has 10 n steps.
  Status ProfileJob(
      ServerContext*, const v1::ProfileJobRequest* request,
      grpc::ServerWriter<v1::ProfileJobResponse>* writer) override {
    ENTER("ProfileJob");
    v1::ProfileJobResponse message;
    message.set_steps(request->recorded() > 0 ? 10 * request->recorded()
                      : request->steps() == 0 ? 5
                                              : request->steps());
    const std::string trace = FakeTrace();
    message.set_chunk(trace.substr(0, 7));
    writer->Write(message);
    message.clear_steps();
    message.set_chunk(trace.substr(7));
    writer->Write(message);
    return Status::OK;
  }

  Status WatchJob(ServerContext* context, const v1::WatchJobRequest* request,
                  grpc::ServerWriter<v1::JobEvent>* writer) override {
    std::vector<v1::JobEvent> events;
    int break_after = 0;
    {
      ENTER("WatchJob");
      state_.watched_after.push_back(request->after_sequence());
      events = state_.events[request->id()];
      break_after = std::exchange(state_.break_after, 0);
    }
    int sent = 0;
    for (const v1::JobEvent& event : events) {
      if (event.sequence() <= request->after_sequence()) continue;
      writer->Write(event);
      if (event.has_state_change() &&
          event.state_change().to() >= v1::SUCCEEDED) {
        return Status::OK;
      }
      if (++sent == break_after) {
        return Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      }
    }
    if (request->mark_caught_up()) {
      v1::JobEvent marker;
      marker.mutable_caught_up();
      writer->Write(marker);
    }
    while (!context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return Status::CANCELLED;
  }

 private:
  FakeState& state_;
};

class Datasets final : public v1::DatasetService::Service {
 public:
  explicit Datasets(FakeState& state) : state_(state) {}

  Status UploadDataset(ServerContext*,
                       grpc::ServerReader<v1::UploadDatasetRequest>* reader,
                       v1::Dataset* dataset) override {
    ENTER("UploadDataset");
    v1::UploadDatasetRequest message;
    while (reader->Read(&message)) {
      if (message.has_header()) {
        dataset->set_name(message.header().name());
        *dataset->mutable_layout() = message.header().layout();
        *dataset->mutable_files() = message.header().files();
        state_.upload_header = message.header();
        state_.uploaded_bytes.resize(message.header().parts().empty()
                                         ? 0
                                         : message.header().parts(0).offset());
      }
      state_.largest_chunk =
          std::max(state_.largest_chunk, message.chunk().data().size());
      state_.uploaded_bytes += message.chunk().data();
      if (Breaks()) return Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    dataset->set_rows(1797);
    state_.datasets[dataset->name()] = *dataset;
    return Status::OK;
  }

  Status ListDatasets(ServerContext*, const v1::ListDatasetsRequest*,
                      v1::ListDatasetsResponse* response) override {
    ENTER("ListDatasets");
    for (const auto& [name, dataset] : state_.datasets) {
      *response->add_datasets() = dataset;
    }
    return Status::OK;
  }

  Status GetDataset(ServerContext*, const v1::GetDatasetRequest* request,
                    v1::Dataset* dataset) override {
    ENTER("GetDataset");
    return Find(state_.datasets, request->name(), "dataset", dataset);
  }

  Status DeleteDataset(ServerContext*, const v1::DeleteDatasetRequest* request,
                       v1::DeleteDatasetResponse*) override {
    ENTER("DeleteDataset");
    v1::Dataset dataset;
    Status found = Find(state_.datasets, request->name(), "dataset", &dataset);
    state_.datasets.erase(request->name());
    return found;
  }

 private:
  bool Breaks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex) {
    if (state_.upload_breaks_at == 0 ||
        state_.uploaded_bytes.size() < state_.upload_breaks_at) {
      return false;
    }
    state_.upload_breaks_at = 0;
    const v1::UploadDatasetRequest::Header& header = state_.upload_header;
    v1::Upload& kept = state_.kept_uploads[header.parts(0).upload_key()];
    kept.set_sha256(header.files(0).sha256());
    kept.set_total_bytes(header.files(0).total_bytes());
    kept.set_bytes(state_.uploaded_bytes.size());
    return true;
  }

  FakeState& state_;
};

class Models final : public v1::ModelService::Service {
 public:
  explicit Models(FakeState& state) : state_(state) {}

  Status ListModels(ServerContext*, const v1::ListModelsRequest*,
                    v1::ListModelsResponse* response) override {
    ENTER("ListModels");
    for (const auto& [name, model] : state_.models) {
      *response->add_models() = model;
    }
    return Status::OK;
  }
  Status GetModel(ServerContext*, const v1::GetModelRequest* request,
                  v1::Model* model) override {
    ENTER("GetModel");
    return Find(state_.models, request->name(), "model", model);
  }
  Status PromoteCheckpoint(ServerContext*,
                           const v1::PromoteCheckpointRequest* request,
                           v1::ModelVersion* version) override {
    ENTER("PromoteCheckpoint");
    state_.promoted = *request;
    version->set_model(request->model());
    version->set_version(1);
    version->set_job_id(request->job_id());
    version->set_step(request->step());
    version->set_state(v1::READY);
    return Status::OK;
  }
  Status PlanModel(ServerContext*, const v1::PlanModelRequest*,
                   v1::PlanModelResponse* response) override {
    ENTER("PlanModel");
    *response->mutable_plan() = state_.plan.plan();
    *response->mutable_devices() = state_.plan.devices();
    return Status::OK;
  }
  Status LoadVersion(ServerContext*, const v1::LoadVersionRequest* request,
                     v1::ModelVersion* version) override {
    ENTER("LoadVersion");
    state_.loaded = *request;
    v1::Model model;
    Status found = Find(state_.models, request->model(), "model", &model);
    if (!found.ok()) return found;
    *version = model.versions(0);
    for (v1::ModelVersion& stored :
         *state_.models[request->model()].mutable_versions()) {
      if (stored.version() != request->version()) continue;
      if (state_.loads_at_once) stored.set_state(v1::READY);
      *version = stored;
    }
    return Status::OK;
  }
  Status ProfileModel(
      ServerContext*, const v1::ProfileModelRequest* request,
      grpc::ServerWriter<v1::ProfileModelResponse>* writer) override {
    ENTER("ProfileModel");
    v1::ProfileModelResponse message;
    message.set_requests(request->requests() == 0 ? 5 : request->requests());
    message.set_version(request->version() == 0 ? 3 : request->version());
    message.set_chunk(FakeTrace());
    writer->Write(message);
    return Status::OK;
  }
  Status UnloadVersion(ServerContext*, const v1::UnloadVersionRequest* request,
                       v1::ModelVersion* version) override {
    ENTER("UnloadVersion");
    state_.unloaded = *request;
    version->set_model(request->model());
    version->set_version(request->version());
    version->set_state(v1::UNLOADED);
    return Status::OK;
  }
  Status DeleteVersion(ServerContext*, const v1::DeleteVersionRequest*,
                       v1::DeleteVersionResponse*) override {
    ENTER("DeleteVersion");
    return Status::OK;
  }

 private:
  FakeState& state_;
};

class Devices final : public v1::DeviceService::Service {
 public:
  explicit Devices(FakeState& state) : state_(state) {}

  Status ListDevices(ServerContext*, const v1::ListDevicesRequest*,
                     v1::ListDevicesResponse* response) override {
    ENTER("ListDevices");
    *response = state_.devices;
    return Status::OK;
  }
  Status GetMemorySummary(ServerContext*,
                          const v1::GetMemorySummaryRequest* request,
                          v1::GetMemorySummaryResponse* response) override {
    ENTER("GetMemorySummary");
    response->set_text("memory of " + request->device());
    return Status::OK;
  }
  Status GetMemoryStats(ServerContext*,
                        const v1::GetMemoryStatsRequest* request,
                        v1::MemoryStats* stats) override {
    ENTER("GetMemoryStats");
    stats->set_device(request->device());
    stats->set_limit_bytes(4096);
    (*stats->mutable_by_pytorch_name())["num_ooms"] = 2;
    (*stats->mutable_by_pytorch_name())["allocated_bytes.all.peak"] = 64;
    return Status::OK;
  }
  Status GetMemorySnapshot(ServerContext*,
                           const v1::GetMemorySnapshotRequest* request,
                           v1::MemorySnapshot* snapshot) override {
    ENTER("GetMemorySnapshot");
    snapshot->set_device(request->device());
    snapshot->add_segments()->set_bytes(64);
    if (request->with_timeline()) snapshot->add_timeline();
    return Status::OK;
  }
  Status EmptyCache(ServerContext*, const v1::EmptyCacheRequest*,
                    v1::EmptyCacheResponse* response) override {
    ENTER("EmptyCache");
    response->set_freed_bytes(2048);
    return Status::OK;
  }
  Status BenchDevice(ServerContext*, const v1::BenchDeviceRequest* request,
                     v1::DeviceBench* bench) override {
    ENTER("BenchDevice");
    FillBench(request->device(), bench);
    bench->set_beside_work(request->force());
    return Status::OK;
  }
  Status GetDeviceBench(ServerContext*,
                        const v1::GetDeviceBenchRequest* request,
                        v1::DeviceBench* bench) override {
    ENTER("GetDeviceBench");
    FillBench(request->device(), bench);
    return Status::OK;
  }
  // Sets measurements with round rates.
  static void FillBench(const std::string& device, v1::DeviceBench* bench) {
    bench->set_device(device);
    v1::DeviceBench::Copy& copy = *bench->add_copies();
    copy.set_path(v1::DeviceBench::TO_DEVICE);
    copy.set_pinned(true);
    copy.set_bytes(4096);
    copy.set_seconds(2e-6);
    v1::DeviceBench::Product& product = *bench->add_products();
    product.set_data_type("bfloat16");
    product.set_size(1000);
    product.set_seconds(0.002);
    product.set_flops(1e12);
    v1::DeviceBench::Allocation& allocation = *bench->add_allocations();
    allocation.set_bytes(1 << 20);
    allocation.set_seconds(80e-9);
    bench->add_skipped("float16 products: no kernel");
  }
  Status ResetPeak(ServerContext*, const v1::ResetPeakRequest*,
                   v1::MemoryStats* stats) override {
    ENTER("ResetPeak");
    stats->set_peak_allocated_bytes(1024);
    return Status::OK;
  }
  Status SetMemoryFraction(ServerContext*,
                           const v1::SetMemoryFractionRequest* request,
                           v1::MemoryStats* stats) override {
    ENTER("SetMemoryFraction");
    stats->set_limit_bytes(static_cast<uint64_t>(4096 * request->fraction()));
    return Status::OK;
  }
  Status DrainDevice(ServerContext*, const v1::DrainDeviceRequest* request,
                     v1::Device* device) override {
    ENTER("DrainDevice");
    device->set_name(request->device());
    *device->mutable_drain() = request->drain();
    device->add_job_ids(7);
    device->add_versions("digits/1");
    return Status::OK;
  }
  Status ResumeDevice(ServerContext*, const v1::ResumeDeviceRequest* request,
                      v1::Device* device) override {
    ENTER("ResumeDevice");
    device->set_name(request->device());
    return Status::OK;
  }
  Status RecordMemoryHistory(ServerContext*,
                             const v1::RecordMemoryHistoryRequest* request,
                             v1::RecordMemoryHistoryResponse*) override {
    ENTER("RecordMemoryHistory");
    state_.history = *request;
    return Status::OK;
  }
  // Sends the device's name in two chunks.
  Status DumpMemory(
      ServerContext*, const v1::DumpMemoryRequest* request,
      grpc::ServerWriter<v1::DumpMemoryResponse>* writer) override {
    ENTER("DumpMemory");
    v1::DumpMemoryResponse message;
    message.set_chunk(request->device().substr(0, 2));
    writer->Write(message);
    message.set_chunk(request->device().substr(2));
    writer->Write(message);
    return Status::OK;
  }
  // Sends two lists, then ends the stream.
  Status WatchDevices(
      ServerContext*, const v1::WatchDevicesRequest*,
      grpc::ServerWriter<v1::ListDevicesResponse>* writer) override {
    ENTER("WatchDevices");
    writer->Write(state_.devices);
    writer->Write(state_.devices);
    return Status::OK;
  }

 private:
  FakeState& state_;
};

class Admin final : public v1::AdminService::Service {
 public:
  explicit Admin(FakeState& state) : state_(state) {}

  Status GetServerInfo(ServerContext*, const v1::GetServerInfoRequest*,
                       v1::ServerInfo* info) override {
    ENTER("GetServerInfo");
    info->set_version("9.8.7");
    info->set_dataset_limit_bytes(state_.upload_limit_bytes);
    info->set_model_limit_bytes(state_.upload_limit_bytes);
    return Status::OK;
  }
  Status Drain(ServerContext*, const v1::DrainRequest*,
               v1::DrainResponse* response) override {
    ENTER("Drain");
    response->set_running_jobs(3);
    return Status::OK;
  }
  Status GetReconcileState(ServerContext*, const v1::GetReconcileStateRequest*,
                           v1::ReconcileState* answer) override {
    ENTER("GetReconcileState");
    answer->add_attempts()->set_job_id(11);
    return Status::OK;
  }

 private:
  FakeState& state_;
};

class Uploads final : public v1::UploadService::Service {
 public:
  explicit Uploads(FakeState& state) : state_(state) {}

 private:
  Status GetUpload(ServerContext*, const v1::GetUploadRequest* request,
                   v1::Upload* upload) override {
    ENTER("GetUpload");
    return Find(state_.kept_uploads, request->upload_key(), "upload", upload);
  }

  FakeState& state_;
};

class Inference final : public inference::GRPCInferenceService::Service {
 public:
  explicit Inference(FakeState& state) : state_(state) {}

  Status ModelReady(ServerContext*, const inference::ModelReadyRequest*,
                    inference::ModelReadyResponse* response) override {
    ENTER("ModelReady");
    response->set_ready(state_.not_ready_calls == 0);
    if (state_.not_ready_calls > 0) --state_.not_ready_calls;
    return Status::OK;
  }
  Status ModelMetadata(ServerContext*,
                       const inference::ModelMetadataRequest* request,
                       inference::ModelMetadataResponse* response) override {
    ENTER("ModelMetadata");
    if (request->name() != "sum") {
      return Status(
          grpc::StatusCode::NOT_FOUND,
          "Request for unknown model: '" + request->name() + "' is not found");
    }
    response->set_name("sum");
    for (auto* tensor : {response->add_inputs(), response->add_outputs()}) {
      tensor->set_name(tensor == &response->inputs(0) ? "input" : "output");
      tensor->set_datatype("FP32");
      tensor->add_shape(-1);
      tensor->add_shape(2);
    }
    return Status::OK;
  }

  Status ModelInfer(ServerContext*, const inference::ModelInferRequest* request,
                    inference::ModelInferResponse* response) override {
    ENTER("ModelInfer");
    const std::string& raw = request->raw_input_contents(0);
    std::vector<float> values(raw.size() / sizeof(float));
    std::memcpy(values.data(), raw.data(), raw.size());
    state_.request_rows.push_back(static_cast<int>(values.size() / 2));
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
      const float x = values[i], y = values[i + 1];
      values[i] = x + y;
      values[i + 1] = x - y;
    }
    response->add_raw_output_contents()->assign(
        reinterpret_cast<const char*>(values.data()), raw.size());
    return Status::OK;
  }

 private:
  FakeState& state_;
};

// Knows one reservation.
class Reservations final : public v1::ReservationService::Service {
 public:
  explicit Reservations(FakeState& state) : state_(state) {}

  Status CreateReservation(ServerContext*,
                           const v1::CreateReservationRequest* request,
                           v1::Reservation* response) override {
    ENTER("CreateReservation");
    state_.reserved = *request;
    *response = One();
    return Status::OK;
  }
  Status ListReservations(ServerContext*, const v1::ListReservationsRequest*,
                          v1::ListReservationsResponse* response) override {
    ENTER("ListReservations");
    *response->add_reservations() = One();
    return Status::OK;
  }
  Status CancelReservation(ServerContext*,
                           const v1::CancelReservationRequest* request,
                           v1::Reservation* response) override {
    ENTER("CancelReservation");
    state_.unreserved = *request;
    *response = One();
    response->set_state(v1::RESERVATION_CANCELLED);
    return Status::OK;
  }

 private:
  static v1::Reservation One() {
    v1::Reservation one;
    one.set_id(3);
    one.set_name("night");
    one.set_tenant("lab");
    one.add_devices("cpu:0");
    one.add_devices("cpu:1");
    one.set_state(v1::RESERVATION_PENDING);
    return one;
  }

  FakeState& state_;
};

#undef ENTER

}  // namespace

struct FakeServer::Services {
  explicit Services(FakeState& state)
      : jobs(state),
        datasets(state),
        models(state),
        devices(state),
        admin(state),
        uploads(state),
        usage(state),
        tokens(state),
        reservations(state),
        inference(state) {}

  Jobs jobs;
  Datasets datasets;
  Models models;
  Devices devices;
  Admin admin;
  Uploads uploads;
  FakeUsage usage;
  FakeTokens tokens;
  Reservations reservations;
  Inference inference;
  std::unique_ptr<grpc::Server> server;
};

FakeServer::FakeServer(tls::TlsFiles files)
    : files_(std::move(files)), services_(std::make_unique<Services>(state)) {
  Start();
}

FakeServer::~FakeServer() { Stop(); }

std::string FakeServer::address() const {
  return "127.0.0.1:" + std::to_string(port_);
}

void FakeServer::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), Credentials(files_), &port_);
  builder.RegisterService(&services_->jobs);
  builder.RegisterService(&services_->datasets);
  builder.RegisterService(&services_->models);
  builder.RegisterService(&services_->devices);
  builder.RegisterService(&services_->admin);
  builder.RegisterService(&services_->uploads);
  builder.RegisterService(&services_->usage);
  builder.RegisterService(&services_->tokens);
  builder.RegisterService(&services_->reservations);
  builder.RegisterService(&services_->inference);
  services_->server = builder.BuildAndStart();
}

void FakeServer::Stop() {
  if (services_->server == nullptr) return;
  services_->server->Shutdown(std::chrono::system_clock::now());
  services_->server->Wait();
  services_->server.reset();
}

v1::JobEvent StateEvent(uint64_t sequence, v1::JobState to) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_state_change()->set_to(to);
  return event;
}

std::string FakeTrace() {
  return R"({"traceEvents": [{"ph": "C", "tid": 0, "ts": 0, )"
         R"("name": "planned bytes", "args": {"value": 2048}}, )"
         R"({"ph": "i", "tid": 0, "ts": 0, "name": "planned peak", "args": )"
         R"({"node": 3, "bytes": 2048, "arena": 1024, "outside": 1024, )"
         R"("values": []}}, {"ph": "X", "tid": 0, "name": "fc", )"
         R"("cat": "matmul", "ts": 0, "dur": 40, "args": {"run": 0, )"
         R"("node": 3, "flops": 80000, "bytes": 100}}]})";
}

v1::JobEvent ProgressEvent(uint64_t sequence, uint64_t step, uint64_t total) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  v1::Progress& progress = *event.mutable_progress();
  progress.set_step(step);
  progress.set_total_steps(total);
  progress.set_loss(0.25);
  progress.set_samples_per_second(31200);
  progress.set_seconds_left(4);
  return event;
}

v1::JobEvent LogEvent(uint64_t sequence, const std::string& text) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_log()->set_severity(v1::LogLine::INFO);
  event.mutable_log()->set_text(text);
  return event;
}

}  // namespace gpupool::client
