#include "server/worker/session_engine.h"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/fault_class.h"
#include "engine/base/elastic_devices.h"
#include "engine/base/status_macros.h"
#include "engine/session.h"
#include "engine/train/rank_group.h"
#include "server/ipc/work_page.h"
#include "server/ipc/worker_paths.h"
#include "server/worker/device_verbs.h"
#include "server/worker/gpu_facts_text.h"

namespace gpupool::server {
namespace {

engine::RankGroup ToRankGroup(const worker::v1::RankGroup& group,
                              std::shared_ptr<engine::AbortSwitch> abort) {
  engine::RankGroup ranks;
  ranks.rank = static_cast<int>(group.rank());
  ranks.size = static_cast<int>(group.size());
  ranks.name = group.name();
  ranks.folder = group.folder();
  ranks.abort = std::move(abort);
  return ranks;
}

// Logs that a plan is outdated. The limit is the peak that was planned at
// admission; another build or number of threads since then may have changed the
// needs of kernels. Then this worker's own plan is the limit, within the
// device's, so that the job does not fail for a few bytes.
void SayPlanIsOld(const std::string& what, uint64_t planned_bytes) {
  spdlog::warn(
      "the plan is of another build or thread count, planned anew owner=\"{}\" "
      "planned_bytes={}",
      what, planned_bytes);
}

class SessionEngine : public Engine {
 public:
  explicit SessionEngine(std::unique_ptr<engine::Session> session)
      : session_(std::move(session)) {}

  absl::StatusOr<worker::v1::PlanReply> PlanTraining(
      const worker::v1::PlanTraining& request) override {
    const v1::JobSpec& spec = request.spec();
    const std::vector<uint32_t> counts = engine::ElasticDevices(
        spec.min_devices(), spec.max_devices(), spec.training().batch_size());
    if (counts.empty()) return PlanOn(spec, request);
    // Each number of devices needs other bytes: plan for the largest need.
    v1::JobSpec fixed = spec;
    fixed.clear_min_devices();
    fixed.clear_max_devices();
    worker::v1::PlanReply largest;
    for (uint32_t count : counts) {
      fixed.set_devices(count);
      ASSIGN_OR_RETURN(worker::v1::PlanReply reply, PlanOn(fixed, request));
      if (reply.plan().training().peak() > largest.plan().training().peak()) {
        largest = std::move(reply);
      }
    }
    return largest;
  }

  absl::StatusOr<worker::v1::PlanReply> PlanInference(
      const worker::v1::PlanInference& request) override {
    worker::v1::PlanReply reply;
    ASSIGN_OR_RETURN(
        *reply.mutable_plan(),
        session_->PlanInference(request.spec(),
                                {.max_batch_size = request.max_batch_size(),
                                 .max_programs = request.max_programs(),
                                 .precision = request.precision()}));
    return reply;
  }

  absl::StatusOr<worker::v1::DatasetReply> InspectDataset(
      const worker::v1::InspectDataset& request) override {
    const std::vector<v1::DatasetFile> files(request.files().begin(),
                                             request.files().end());
    ASSIGN_OR_RETURN(const engine::DatasetFacts facts,
                     session_->InspectDataset(request.layout(), files));
    worker::v1::DatasetReply reply;
    reply.set_rows(facts.rows);
    // Named arrays have facts of their own.
    if (facts.inputs.empty()) {
      reply.mutable_feature_shape()->Add(facts.feature_shape.begin(),
                                         facts.feature_shape.end());
      reply.set_feature_type(facts.feature_type);
    }
    if (facts.targets.empty()) {
      reply.set_classes(facts.labels.class_count());
      engine::ToProto(facts.labels, reply.mutable_labels());
    }
    reply.mutable_inputs()->Add(facts.inputs.begin(), facts.inputs.end());
    reply.mutable_targets()->Add(facts.targets.begin(), facts.targets.end());
    *reply.mutable_description() = facts.description;
    return reply;
  }

  absl::StatusOr<worker::v1::ImportReply> ImportModel(
      const worker::v1::ImportModel& request) override {
    ASSIGN_OR_RETURN(
        engine::ImportedModel imported,
        session_->ImportModel(request.spec(), request.weights_sha256(),
                              {.max_batch_size = request.max_batch_size(),
                               .max_programs = request.max_programs(),
                               .precision = request.precision()}));
    worker::v1::ImportReply reply;
    *reply.mutable_plan() = std::move(imported.plan);
    reply.set_manifest_sha256(imported.manifest_sha256);
    return reply;
  }

  absl::StatusOr<worker::v1::ExportReply> ExportModel(
      const worker::v1::ExportModel& request) override {
    const bool onnx = request.format() == v1::ExportModelRequest::ONNX;
    ASSIGN_OR_RETURN(
        const engine::ExportedModel exported,
        session_->ExportModel(request.manifest_sha256(),
                              onnx ? engine::ExportFormat::kOnnx
                                   : engine::ExportFormat::kSafetensors));
    worker::v1::ExportReply reply;
    reply.set_sha256(exported.sha256);
    reply.set_bytes(exported.bytes);
    return reply;
  }

  absl::StatusOr<std::unique_ptr<engine::Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<engine::AbortSwitch> abort) override {
    engine::TrainingRequest training;
    training.job_id = request.job_id();
    training.attempt = request.attempt();
    training.spec = request.spec();
    training.dataset = request.dataset();
    training.validation = request.validation();
    training.resume_manifest_sha256 = request.resume_manifest_sha256();
    training.limit_bytes = request.limit_bytes();
    if (request.has_group()) {
      // Check first: a group cannot be tried twice, since the place in it is
      // taken.
      training.group = ToRankGroup(request.group(), std::move(abort));
      RETURN_IF_ERROR(TakeOwnPlan(&training));
    }
    auto run = session_->StartTraining(training);
    // A job without a group is tried first, because planning costs time and
    // most plans are current.
    if (absl::IsResourceExhausted(run.status()) && !request.has_group()) {
      const uint64_t limit_bytes = training.limit_bytes;
      RETURN_IF_ERROR(TakeOwnPlan(&training));
      if (training.limit_bytes > limit_bytes) {
        run = session_->StartTraining(training);
      }
    }
    return run;
  }

  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion& request) override {
    engine::LoadRequest load;
    load.version_id = request.version_id();
    load.name = request.name();
    load.manifest_sha256 = request.manifest_sha256();
    load.max_batch_size = request.max_batch_size();
    load.limit_bytes = request.limit_bytes();
    load.max_programs = request.max_programs();
    load.precision = request.precision();
    load.benchmark = request.benchmark();
    auto model = session_->LoadModel(load);
    if (absl::IsResourceExhausted(model.status()) && load.limit_bytes > 0) {
      SayPlanIsOld(absl::StrCat("model ", load.name), load.limit_bytes);
      load.limit_bytes = 0;  // the plan made here is then the limit
      model = session_->LoadModel(load);
    }
    return model;
  }

  absl::StatusOr<std::shared_ptr<void>> RegisterMemory(
      absl::Span<std::byte> memory) override {
    ASSIGN_OR_RETURN(std::unique_ptr<engine::HostRegistration> registration,
                     session_->RegisterHostMemory(memory));
    return std::shared_ptr<void>(std::move(registration));
  }

  absl::StatusOr<bool> MeasureDevice(uint32_t index,
                                     v1::DeviceBench& bench) override {
    return session_->MeasureDevice(index, bench);
  }

  int ExitCodeFor(const absl::Status& status) const override {
    // The exit code tells the daemon whether a new worker can help.
    switch (engine::cuda::FaultOf(status)) {
      case engine::cuda::FaultClass::kSticky:
        return kExitDeviceFault;
      case engine::cuda::FaultClass::kQuarantine:
        return kExitDeviceSuspect;
      default:
        return 0;
    }
  }
  bool IsJobsOwnFault(const absl::Status& status) const override {
    return engine::IsJobsOwnFault(status);
  }
  v1::JobError ToJobError(const absl::Status& status,
                          uint64_t step) const override {
    return engine::ToJobError(status, step);
  }

  v1::Device info() const override { return session_->info(); }
  absl::StatusOr<v1::GpuReadings> Readings() const override {
    return session_->Read();
  }
  v1::MemoryStats memory_stats() const override {
    return session_->memory_stats();
  }
  std::optional<absl::StatusOr<worker::v1::FromWorker>> AnswerVerb(
      const worker::v1::ToWorker& request) override {
    return AnswerDeviceVerb(*session_, request);
  }

 private:
  // Plans the spec on the datasets of the request.
  absl::StatusOr<worker::v1::PlanReply> PlanOn(
      const v1::JobSpec& spec, const worker::v1::PlanTraining& request) {
    ASSIGN_OR_RETURN(
        engine::TrainingPlan plan,
        session_->PlanTraining(spec, request.dataset(), request.validation()));
    worker::v1::PlanReply reply;
    *reply.mutable_plan() = std::move(plan.plan);
    reply.set_total_steps(plan.total_steps);
    reply.set_training_rows(plan.training_rows);
    return reply;
  }

  // Raises the limit to the need of this worker's own plan.
  absl::Status TakeOwnPlan(engine::TrainingRequest* training) {
    ASSIGN_OR_RETURN(const engine::TrainingPlan plan,
                     session_->PlanTraining(training->spec, training->dataset,
                                            training->validation,
                                            engine::JobOrigin::kStored));
    const v1::PlannedBytes& planned = plan.plan.training();
    const uint64_t peak = planned.peak();
    // A job also trains without room for the next batch.
    if (peak - planned.next_batch() <= training->limit_bytes) {
      return absl::OkStatus();
    }
    SayPlanIsOld(absl::StrCat("job ", training->job_id), training->limit_bytes);
    training->limit_bytes = peak;
    return absl::OkStatus();
  }

  std::unique_ptr<engine::Session> session_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> MakeSessionEngine(
    const EngineOptions& options) {
  const std::string name =
      options.device == kRehearsalWorker ? "cpu:0" : options.device;
  ASSIGN_OR_RETURN(const engine::Device device, engine::ParseDevice(name));
  ASSIGN_OR_RETURN(const engine::Device plan_for,
                   engine::ParseDevice(options.plan_for));
  engine::SessionOptions session_options;
  session_options.device = device;
  session_options.memory_limit_bytes = options.memory_limit_bytes;
  session_options.threads = static_cast<int>(options.threads);
  session_options.blob_dir = options.blob_dir;
  session_options.unpack_dir = options.unpack_dir;
  session_options.plan_for = plan_for;
  if (!options.plan_facts.empty()) {
    ASSIGN_OR_RETURN(session_options.planned_device,
                     ParseGpuFacts(options.plan_facts));
    // Set before anything asks the driver, so that no library can make a
    // context.
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  }
  session_options.cuda.vendor_library_dirs = options.cuda_lib_dir;
  session_options.cuda.plan_cache_dir = options.plan_cache_dir;
  session_options.cuda.log = [](absl::string_view line) {
    spdlog::info("{}", std::string(line));
  };
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Session> session,
                   engine::Session::Create(std::move(session_options)));
  return std::make_unique<SessionEngine>(std::move(session));
}

}  // namespace gpupool::server
