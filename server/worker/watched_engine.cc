#include "server/worker/watched_engine.h"

#include <atomic>
#include <optional>
#include <type_traits>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/worker/injected_fault.h"
#include "server/worker/rehearsal/training_rehearsal.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Marks pieces of work, and keeps the first fault that ends the process.
class Watch {
 public:
  Watch(const Engine* engine, WorkPage* page) : engine_(engine), page_(page) {}

  template <typename Work>
  auto Do(WorkPhase phase, WorkOwner owner, const Work& work) {
    Begin(phase, owner);
    auto result = work();
    End(StatusOf(result));
    return result;
  }
  // Marks a piece of work from Begin to End. Other work in between does not
  // count for it.
  void Begin(WorkPhase phase, WorkOwner owner) { page_->Begin(phase, owner); }
  void End(const absl::Status& status) { Note(status, page_->End()); }
  // Notes a fault that the owner's work has met. May be called on any thread.
  void Note(const absl::Status& status, WorkOwner owner) {
    if (status.ok()) return;
    const int code = engine_->ExitCodeFor(status);
    // Only the first fault counts, since later ones are its consequences.
    if (code == 0 || noted_.exchange(true)) return;
    spdlog::error("a fault of the device ends the worker exit_code={}: {}",
                  code, status.ToString());
    // The order matters: exit_code() ends the process, and the page must name
    // the fault before that.
    page_->SetFault(code, status.message(), owner);
    exit_code_.store(code);
  }
  int exit_code() const { return exit_code_.load(); }

 private:
  const Engine* const engine_;
  WorkPage* const page_;
  std::atomic<bool> noted_{false};
  std::atomic<int> exit_code_{0};
};

// A training whose work is marked on the page. A step lasts from StartStep to
// FinishStep. Faults that tests ask for happen here, and are noted like those
// of the device.
class WatchedTraining : public engine::Training {
 public:
  WatchedTraining(std::unique_ptr<engine::Training> training,
                  const worker::v1::StartJob& request, Watch* watch)
      : training_(std::move(training)),
        owner_{.job_id = request.job_id()},
        is_rehearsal_(request.attempt() == kRehearsedAttempt),
        step_phase_(StepPhase(request)),
        watch_(watch) {}

  absl::Status StartStep() override {
    watch_->Begin(step_phase_, owner_);
    absl::Status started =
        is_rehearsal_ ? absl::OkStatus() : injected_.BeforeStep(step() + 1);
    if (started.ok()) started = training_->StartStep();
    if (!started.ok()) watch_->End(started);
    return started;
  }
  bool StepIsDone() override { return training_->StepIsDone(); }
  absl::Status FinishStep() override {
    const absl::Status finished = training_->FinishStep();
    watch_->End(finished);
    return finished;
  }
  absl::StatusOr<v1::Checkpoint> SaveCheckpoint() override {
    return Other([&] { return training_->SaveCheckpoint(); });
  }
  absl::StatusOr<engine::CheckpointWrite> CopyCheckpoint() override {
    RETURN_IF_ERROR(injected_.BeforeCopy(step()));
    ASSIGN_OR_RETURN(engine::CheckpointWrite write,
                     Other([&] { return training_->CopyCheckpoint(); }));
    return engine::CheckpointWrite(
        [injected = injected_, step = step(),
         write = std::move(write)]() -> absl::StatusOr<v1::Checkpoint> {
          RETURN_IF_ERROR(injected.BeforeWrite(step));
          return write();
        });
  }
  uint64_t checkpoint_bytes() const override {
    return training_->checkpoint_bytes();
  }
  absl::StatusOr<v1::Evaluation> Evaluate() override {
    return Other([&] { return training_->Evaluate(); });
  }
  absl::StatusOr<double> Loss() override { return training_->Loss(); }
  std::optional<double> learning_rate() const override {
    return training_->learning_rate();
  }
  double input_wait() const override { return training_->input_wait(); }
  double loss_scale() const override { return training_->loss_scale(); }
  uint64_t skipped_steps() const override { return training_->skipped_steps(); }
  uint64_t step() const override { return training_->step(); }
  uint64_t total_steps() const override { return training_->total_steps(); }
  uint32_t rows_per_step() const override { return training_->rows_per_step(); }
  uint64_t steps_per_epoch() const override {
    return training_->steps_per_epoch();
  }
  bool has_held_out_rows() const override {
    return training_->has_held_out_rows();
  }
  uint64_t evaluated_step() const override {
    return training_->evaluated_step();
  }
  bool newest_evaluation_is_best() const override {
    return training_->newest_evaluation_is_best();
  }
  bool stopped_early() const override { return training_->stopped_early(); }
  absl::Status StartProfile(uint32_t steps) override {
    return Other([&] { return training_->StartProfile(steps); });
  }
  absl::StatusOr<engine::StoredProfile> TakeProfile() override {
    return Other([&] { return training_->TakeProfile(); });
  }
  v1::MemoryUse memory() const override { return training_->memory(); }
  void RequestStop() override { training_->RequestStop(); }
  bool stop_agreed() const override { return training_->stop_agreed(); }

 private:
  template <typename Work>
  std::invoke_result_t<Work> Other(const Work& work) {
    return watch_->Do(WorkPhase::kOther, owner_, work);
  }

  // A rehearsed step is other work: all rehearsals have one owner.
  static WorkPhase StepPhase(const worker::v1::StartJob& request) {
    if (request.attempt() == kRehearsedAttempt) return WorkPhase::kOther;
    return request.has_group() ? WorkPhase::kGroupStep : WorkPhase::kStep;
  }

  const std::unique_ptr<engine::Training> training_;
  const WorkOwner owner_;
  const bool is_rehearsal_;
  const WorkPhase step_phase_;
  Watch* const watch_;
  const InjectedFault injected_;
};

// A served model whose batches are marked on the page.
class WatchedModel : public engine::ServedModel {
 public:
  WatchedModel(std::unique_ptr<engine::ServedModel> model, WorkOwner owner,
               Watch* watch)
      : model_(std::move(model)), owner_(owner), watch_(watch) {}

  absl::Status Infer(const engine::InferenceBatch& batch,
                     engine::InferenceAnswer* answer) override {
    return watch_->Do(WorkPhase::kInfer, owner_,
                      [&] { return model_->Infer(batch, answer); });
  }
  const std::vector<v1::TensorSpec>& inputs() const override {
    return model_->inputs();
  }
  const std::vector<v1::TensorSpec>& outputs() const override {
    return model_->outputs();
  }
  const std::vector<std::string>& dimensions() const override {
    return model_->dimensions();
  }
  uint64_t measured_bytes() const override { return model_->measured_bytes(); }
  absl::Status StartProfile(uint32_t requests, uint32_t rows) override {
    return watch_->Do(WorkPhase::kOther, owner_,
                      [&] { return model_->StartProfile(requests, rows); });
  }
  absl::Status ProfileRequest() override {
    return watch_->Do(WorkPhase::kOther, owner_,
                      [&] { return model_->ProfileRequest(); });
  }
  absl::StatusOr<engine::StoredProfile> TakeProfile() override {
    return watch_->Do(WorkPhase::kOther, owner_,
                      [&] { return model_->TakeProfile(); });
  }

 private:
  const std::unique_ptr<engine::ServedModel> model_;
  const WorkOwner owner_;
  Watch* const watch_;
};

// An engine whose calls on the compute thread are marked on the page.
class WatchedEngine : public Engine {
 public:
  WatchedEngine(std::unique_ptr<Engine> engine, WorkPage* page)
      : engine_(std::move(engine)), watch_(engine_.get(), page) {}

  absl::StatusOr<worker::v1::PlanReply> PlanTraining(
      const worker::v1::PlanTraining& request) override {
    if (!request.make_step()) {
      return Other([&] { return engine_->PlanTraining(request); });
    }
    return watch_.Do(WorkPhase::kOther, {.job_id = kRehearsedJob},
                     [&] { return engine_->PlanTraining(request); });
  }
  absl::StatusOr<worker::v1::PlanReply> PlanInference(
      const worker::v1::PlanInference& request) override {
    return Other([&] { return engine_->PlanInference(request); });
  }
  absl::StatusOr<worker::v1::ImportReply> ImportModel(
      const worker::v1::ImportModel& request) override {
    return Other([&] { return engine_->ImportModel(request); });
  }
  absl::StatusOr<worker::v1::ExportReply> ExportModel(
      const worker::v1::ExportModel& request) override {
    return Other([&] { return engine_->ExportModel(request); });
  }
  absl::StatusOr<std::unique_ptr<engine::Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<engine::AbortSwitch> abort) override {
    auto training =
        watch_.Do(WorkPhase::kOther, {.job_id = request.job_id()}, [&] {
          if (request.attempt() == kRehearsedAttempt) {
            injected_.BeforeTry(request.spec().name());
          }
          return engine_->StartTraining(request, std::move(abort));
        });
    if (!training.ok()) return training.status();
    return std::make_unique<WatchedTraining>(*std::move(training), request,
                                             &watch_);
  }
  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion& request) override {
    const WorkOwner owner = {.version_id = request.version_id()};
    auto model = watch_.Do(WorkPhase::kOther, owner, [&] {
      injected_.BeforeLoad(request.name());
      return engine_->LoadModel(request);
    });
    if (!model.ok()) return model.status();
    return std::make_unique<WatchedModel>(*std::move(model), owner, &watch_);
  }
  absl::StatusOr<std::shared_ptr<void>> RegisterMemory(
      absl::Span<std::byte> memory) override {
    return Other([&] { return engine_->RegisterMemory(memory); });
  }
  absl::StatusOr<bool> MeasureDevice(uint32_t index,
                                     v1::DeviceBench& bench) override {
    return Other([&] { return engine_->MeasureDevice(index, bench); });
  }

  bool IsJobsOwnFault(const absl::Status& status) const override {
    return engine_->IsJobsOwnFault(status);
  }
  v1::JobError ToJobError(const absl::Status& status,
                          uint64_t step) const override {
    return engine_->ToJobError(status, step);
  }
  int ExitCodeFor(const absl::Status& status) const override {
    return engine_->ExitCodeFor(status);
  }
  int exit_code() const override { return watch_.exit_code(); }

  // Any thread, so it is not marked as work of the device.
  absl::StatusOr<worker::v1::DatasetReply> InspectDataset(
      const worker::v1::InspectDataset& request) override {
    return engine_->InspectDataset(request);
  }
  v1::Device info() const override { return engine_->info(); }
  absl::StatusOr<v1::GpuReadings> Readings() const override {
    auto readings = engine_->Readings();
    watch_.Note(readings.status(), {});
    return readings;
  }
  v1::MemoryStats memory_stats() const override {
    return engine_->memory_stats();
  }
  std::optional<absl::StatusOr<worker::v1::FromWorker>> AnswerVerb(
      const worker::v1::ToWorker& request) override {
    return engine_->AnswerVerb(request);
  }

 private:
  template <typename Work>
  std::invoke_result_t<Work> Other(const Work& work) {
    return watch_.Do(WorkPhase::kOther, {}, work);
  }

  const std::unique_ptr<Engine> engine_;
  const InjectedFault injected_;
  mutable Watch watch_;
};

}  // namespace

std::unique_ptr<Engine> WatchEngine(std::unique_ptr<Engine> engine,
                                    WorkPage* page) {
  return std::make_unique<WatchedEngine>(std::move(engine), page);
}

}  // namespace gpupool::server
