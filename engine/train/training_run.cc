#include "engine/train/training_run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/prepare/scaling.h"
#include "engine/data/prepare/window.h"
#include "engine/model/lr_schedule.h"
#include "engine/model/precision.h"
#include "engine/train/blob_file.h"
#include "engine/train/checkpoint_tensors.h"
#include "engine/train/initial_weights.h"
#include "engine/train/program_scalars.h"

namespace gpupool::engine {
namespace {

template <typename T>
absl::Span<T> As(absl::Span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Makes the executor of a program that a job may lack; null without it.
absl::StatusOr<std::unique_ptr<Executor>> ExecutorOf(
    std::optional<Program> program, const ExecutorMemory& memory,
    absl::Span<const std::string> brought = {}) {
  if (!program.has_value()) return std::unique_ptr<Executor>();
  return Executor::Create(*std::move(program), memory, brought);
}

absl::Status SetFloats(const WeightStore& store, absl::string_view name,
                       const std::vector<float>& values) {
  return store.Write(name, {reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(float)});
}

}  // namespace

TrainingRun::TrainingRun(const DeviceContext& device,
                         const TrainingRequest& request)
    : device_(device),
      request_(request),
      holder_(absl::StrCat("job ", request.job_id), device.allocator),
      history_(&request_.spec.training()) {}

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Create(
    const DeviceContext& device, const TrainingRequest& request) {
  std::unique_ptr<TrainingRun> run(new TrainingRun(device, request));
  RETURN_IF_ERROR(run->JoinGroup());
  // The other ranks wait for this one already and must learn of an error.
  RETURN_IF_ERROR(run->Share(run->Open()));
  return run;
}

// Destroys kernels before the collective that they use, and the collective
// before the memory in which sums may still arrive.
TrainingRun::~TrainingRun() {
  // Its threads read the table and a program.
  batches_.reset();
  // An unfinished step still uses the memory.
  if (in_flight_.has_value()) executor().Finish().IgnoreError();
  for (auto* executor : {&train_, &accumulate_, &short_step_, &eval_}) {
    executor->reset();
  }
  link_.reset();
}

absl::Status TrainingRun::JoinGroup() {
  const uint32_t devices = DevicesOf(request_.spec);
  const int size = request_.group.has_value() ? request_.group->size : 1;
  if (static_cast<uint32_t>(size) != devices) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job trains on ", devices, " devices, but this run ",
                     "was started in a group of ", size));
  }
  if (size == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(link_, RankLink::Connect(*request_.group));
  return absl::OkStatus();
}

absl::Status TrainingRun::Open() {
  // Set first, so that the limit covers everything below.
  RETURN_IF_ERROR(holder_.SetLimit(request_.limit_bytes));
  RETURN_IF_ERROR(LoadData());
  RETURN_IF_ERROR(MakeExecutors());
  RETURN_IF_ERROR(request_.resume_manifest_sha256.empty() ? StartFresh()
                                                          : Resume());
  RETURN_IF_ERROR(train_->Load());
  if (short_step_ != nullptr) RETURN_IF_ERROR(short_step_->Load());
  RETURN_IF_ERROR(
      batches_->LoadAhead(request_.spec, *sampler_, length_.total_steps));
  return link_ == nullptr ? absl::OkStatus()
                          : link_->CheckSame(step(), *weights_);
}

absl::Status TrainingRun::Share(absl::Status error) {
  if (!error.ok() && link_ != nullptr) link_->Abort(error.message());
  return error;
}

absl::Status TrainingRun::LoadData() {
  const v1::DataSpec& data = request_.spec.data();
  ASSIGN_OR_RETURN(table_, ReadRows(data, request_.dataset, device_.blob_dir,
                                    device_.read_limits));
  ASSIGN_OR_RETURN(Split split, SplitTable(request_.spec, table_));
  held_out_rows_ = std::move(split.held_out);
  training_rows_ = std::move(split.training);
  if (data.validation().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(validation_,
                   ReadRows(data, request_.validation, device_.blob_dir,
                            device_.read_limits));
  held_out_rows_.resize(validation_->rows);
  std::iota(held_out_rows_.begin(), held_out_rows_.end(), uint32_t{0});
  return absl::OkStatus();
}

absl::Status TrainingRun::MakeExecutors() {
  ASSIGN_OR_RETURN(const DataFacts facts,
                   FactsOf(request_.spec, table_,
                           validation_.has_value() ? &*validation_ : nullptr));
  ASSIGN_OR_RETURN(source_,
                   ModelSource::Open(request_.spec.model(), device_.blob_dir));
  ASSIGN_OR_RETURN(
      TrainingPrograms programs,
      CompileTraining(
          *source_, request_.spec, facts,
          {.backend = device_.backend,
           .collective = link_ == nullptr ? nullptr : link_->collective()}));
  RETURN_IF_ERROR(PrefetchedBytes(request_.spec.data(), programs).status());
  RETURN_IF_ERROR(CheckNumbers(programs, table_));
  if (validation_.has_value()) {
    RETURN_IF_ERROR(
        AtPlace("data.validation", CheckNumbers(programs, *validation_)));
  }
  // The landing comes last and takes only memory that the programs leave.
  PlanLanding(
      request_.spec,
      request_.limit_bytes != 0 ? request_.limit_bytes : device_.limit_bytes,
      programs);
  LandingLayout layout = BatchLayout(programs);
  fed_ = std::move(programs.fed);
  outputs_ = std::move(programs.outputs);
  length_ = programs.length;
  eval_batch_ = programs.eval_batch;
  persistents_ = std::move(programs.persistents);
  planned_peak_bytes_ = BytesOf(programs).peak;
  const uint64_t arena_bytes = ArenaBytesOf(programs);
  ASSIGN_OR_RETURN(
      weights_,
      WeightStore::Create(std::move(programs.layout), holder_.name(),
                          device_.allocator, device_.backend->transfer()));
  ASSIGN_OR_RETURN(arena_, device_.allocator->Allocate(
                               arena_bytes, {holder_.name(), "arena"}));
  const ExecutorMemory memory = {.weights = *weights_,
                                 .arena = {arena_.data(), arena_bytes},
                                 .holder = holder_.name(),
                                 .allocator = device_.allocator};
  // Read before the layout is moved into the landing.
  const std::vector<std::string> brought = programs.landing.names();
  if (programs.landing.bytes > 0) {
    ASSIGN_OR_RETURN(
        landing_,
        BatchLanding::Create(std::move(programs.landing), holder_.name(),
                             device_.allocator, &device_.backend->transfer()));
  }
  ASSIGN_OR_RETURN(
      train_, Executor::Create(std::move(programs.train), memory, brought));
  batches_ = std::make_unique<BatchSource>(BatchSourceOptions{
      .table = table_,
      .fed = fed_,
      .graph = train_->program().graph(),
      .layout = std::move(layout),
      .seed = request_.spec.training().seed(),
      .batches_per_epoch = length_.steps_per_epoch * batches_per_step(),
      .mix = std::move(programs.mix)});
  ASSIGN_OR_RETURN(accumulate_,
                   ExecutorOf(std::move(programs.accumulate), memory, brought));
  // The landing has the tensors of a whole batch, so these are copied.
  ASSIGN_OR_RETURN(short_step_,
                   ExecutorOf(std::move(programs.short_step), memory));
  ASSIGN_OR_RETURN(eval_, ExecutorOf(std::move(programs.eval), memory));
  return absl::OkStatus();
}

absl::Status TrainingRun::StartFresh() {
  const uint64_t seed = request_.spec.training().seed();
  RETURN_IF_ERROR(SetInitialWeights(*source_, persistents_, seed, *weights_));
  const v1::Scaling& scaling = request_.spec.data().scaling();
  if (scaling.rule_case() != v1::Scaling::RULE_NOT_SET) {
    ASSIGN_OR_RETURN(
        const ScalingValues values,
        ComputeScaling(scaling, FedColumn(table_, fed_[0]), training_rows_));
    RETURN_IF_ERROR(SetFloats(*weights_, "input.scale", values.scale));
    RETURN_IF_ERROR(SetFloats(*weights_, "input.shift", values.shift));
  }
  // Averages begin as the weights, so these must be set before.
  RETURN_IF_ERROR(StartAverages(*weights_));
  return MakeSampler();
}

// Makes a sampler whose batch is a whole step of this rank. BatchRows cuts it
// into the batches of the step.
absl::Status TrainingRun::MakeSampler() {
  const v1::DataSpec& data = request_.spec.data();
  ASSIGN_OR_RETURN(
      sampler_, DistributedSampler::Create(
                    {.seed = request_.spec.training().seed(),
                     .batch_size = batch_size() / ranks() * batches_per_step(),
                     .rank = static_cast<uint32_t>(rank()),
                     .ranks = ranks(),
                     .shuffle = !data.has_shuffle() || data.shuffle(),
                     .keep_last = length_.short_step_rows > 0},
                    std::move(training_rows_)));
  return absl::OkStatus();
}

absl::Status TrainingRun::Resume() {
  ASSIGN_OR_RETURN(
      const Manifest manifest,
      ReadManifest(device_.blob_dir, request_.resume_manifest_sha256));
  RETURN_IF_ERROR(CheckManifest(manifest, request_.spec.training(), length_));
  ASSIGN_OR_RETURN(const WeightView weights, WeightView::OfNew(*weights_));
  RETURN_IF_ERROR(ReadTensors(device_.blob_dir, manifest, "weights",
                              ModelTensors(weights)));
  const std::vector<TensorBytes> optimizer = OptimizerTensors(weights);
  if (!optimizer.empty()) {
    RETURN_IF_ERROR(
        ReadTensors(device_.blob_dir, manifest, "optimizer", optimizer));
  }
  RETURN_IF_ERROR(weights.Commit());
  // The count of skipped steps is part of the optimizer's state.
  const auto skipped = As<int64_t>(weights.Find(kLossScaleSkippedName));
  if (!skipped.empty()) skipped_steps_ = static_cast<uint64_t>(skipped[0]);
  history_.Restore(manifest.evaluation);
  RETURN_IF_ERROR(MakeSampler());
  sampler_->Seek(manifest.step);
  return absl::OkStatus();
}

absl::Status TrainingRun::SendBatch(uint64_t number,
                                    absl::Span<const uint32_t> rows) {
  RETURN_IF_ERROR(batches_->Fill(number, rows, [this](absl::string_view name) {
    return landing_->input(name);
  }));
  return landing_->Send(number);
}

absl::Status TrainingRun::BringBatch() {
  Executor& program = executor();
  const uint64_t number = BatchNumber();
  // The batch was sent while the one before it ran.
  if (landing_ != nullptr && landing_->Holds(number)) {
    return landing_->Take(program);
  }
  const auto rows = BatchRows(in_flight_->rows, in_flight_->batch);
  if (landing_ != nullptr && !in_flight_->is_short) {
    RETURN_IF_ERROR(SendBatch(number, rows));
    return landing_->Take(program);
  }
  return batches_->Fill(number, rows, [&program](absl::string_view name) {
    return program.input(name);
  });
}

absl::Status TrainingRun::SendNextBatch() {
  if (landing_ == nullptr) return absl::OkStatus();
  const uint64_t number = BatchNumber() + 1;
  if (!AtLastBatch()) {
    return SendBatch(number,
                     BatchRows(in_flight_->rows, in_flight_->batch + 1));
  }
  if (step() >= length_.total_steps) return absl::OkStatus();
  // Peeks, so that the sampler's position, which checkpoints save, does not
  // move.
  const absl::Span<const uint32_t> next = sampler_->Peek();
  if (IsShort(next)) return absl::OkStatus();
  return SendBatch(number, BatchRows(next, 0));
}

absl::Status TrainingRun::StartStep() {
  RETURN_IF_ERROR(spoiled_);
  if (step() >= length_.total_steps) {
    return absl::FailedPreconditionError(absl::StrCat(
        "all ", length_.total_steps, " steps of the job are done"));
  }
  GPUPOOL_CHECK(!in_flight_.has_value());
  const v1::TrainingSpec& training = request_.spec.training();
  const double rate =
      LearningRateAt(training.schedule(), length_.base_learning_rate,
                     {.step = step(),
                      .total_steps = length_.total_steps,
                      .reductions = history_.reductions()});
  // This program does not update the weights. Its kernels pack them, so they
  // must be loaded again after each step.
  if (accumulate_ != nullptr) RETURN_IF_ERROR(accumulate_->Load());
  const absl::Span<const uint32_t> rows = sampler_->Next();
  in_flight_ = {.rows = rows, .rate = rate, .is_short = IsShort(rows)};
  const absl::Status started = StartBatch();
  if (started.ok()) return started;
  in_flight_.reset();
  // The step may have changed some weights, so none can be used.
  return spoiled_ = Share(started);
}

bool TrainingRun::StepIsDone() {
  GPUPOOL_CHECK(in_flight_.has_value());
  while (in_flight_->failed.ok() && executor().IsDone()) {
    if (AtLastBatch()) return true;
    in_flight_->failed = NextBatch();
  }
  return !in_flight_->failed.ok();
}

absl::Status TrainingRun::FinishStep() {
  GPUPOOL_CHECK(in_flight_.has_value());
  const absl::StatusOr<double> loss = FinishBatches();
  learning_rate_ = in_flight_->rate;
  const Executor& program = executor();
  in_flight_.reset();
  if (!loss.ok()) return spoiled_ = Share(loss.status());
  const bool skipped = NoteScale(program);
  // A skipped step keeps the loss before, unless there is none.
  if (std::isfinite(*loss) || !loss_.has_value() || !skipped) loss_ = *loss;
  return spoiled_ = CheckStep(*loss, skipped);
}

bool TrainingRun::NoteScale(const Executor& program) {
  if (program.output("loss_scale").empty()) return false;
  loss_scale_ = double{GetScalar<float>(program, "loss_scale")};
  const auto skipped =
      static_cast<uint64_t>(GetScalar<int64_t>(program, "skipped_steps"));
  return std::exchange(skipped_steps_, skipped) != skipped;
}

absl::Status TrainingRun::CheckStep(double loss, bool skipped) const {
  if (!skipped) {
    return std::isfinite(loss) ? absl::OkStatus()
                               : NotFinite(absl::StrCat("the loss is ", loss));
  }
  if (step() >= length_.total_steps) RETURN_IF_ERROR(CheckAnyStepCounted());
  // A few skipped steps are normal. A scale this low shows that the gradients
  // never fit.
  if (loss_scale_ >= kLeastLossScale) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "with a loss scale of ", loss_scale_, ", below the limit of ",
      kLeastLossScale, ", gradients are still not finite at step ", step(),
      " of ", length_.total_steps, "; ", skipped_steps_,
      " steps were skipped; hint: the model leaves the range of float16: ",
      "train with precision: bf16, lower the learning rate (it is ",
      length_.base_learning_rate, "), or scale the features"));
}

// The weights of a job that skipped all its steps are those that it began with.
absl::Status TrainingRun::CheckAnyStepCounted() const {
  if (step() == 0 || skipped_steps_ < step()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "all ", step(),
      " steps were skipped, because their gradients were not finite in "
      "float16, so no weight was trained; the loss scale fell to ",
      loss_scale_,
      "; hint: train for more steps, begin with a lower "
      "loss_scaling.initial, or train with precision: bf16"));
}

uint64_t TrainingRun::ModelSeed() const {
  const uint64_t seed = request_.spec.training().seed();
  // A job on one device draws the numbers of rank 0.
  if (rank() == 0) return seed;
  return Philox(seed, PhiloxStreamId(PhiloxStream::kGeneral,
                                     static_cast<uint64_t>(rank())))
      .NextDoubleWord();
}

absl::Status TrainingRun::StartBatch() {
  Executor& program = executor();
  if (AtLastBatch()) {
    // Both scalars travel with the gradients of the last bucket (rank_mean.h).
    SetScalar<float>(program, "earlier_loss",
                     static_cast<float>(in_flight_->sum));
    SetScalar<float>(program, "stop_wanted", stop_requested_ ? 1.0f : 0.0f);
  }
  SetScalar<double>(program, "learning_rate", in_flight_->rate);
  SetScalar<int64_t>(program, "step", static_cast<int64_t>(step()));
  SetScalar<int64_t>(program, "batch", static_cast<int64_t>(BatchNumber() + 1));
  SetScalar<int64_t>(program, "seed", std::bit_cast<int64_t>(ModelSeed()));
  const auto begin = std::chrono::steady_clock::now();
  absl::Status started = BringBatch();
  input_wait_ += SecondsSince(begin);
  if (started.ok()) {
    started = profile_ == nullptr ? program.Start() : profile_->Run(program);
  }
  const auto sent = std::chrono::steady_clock::now();
  if (started.ok()) started = SendNextBatch();
  // The device has nothing to do if it ended meanwhile.
  if (landing_ != nullptr && started.ok() && program.IsDone()) {
    input_wait_ += SecondsSince(sent);
  }
  // Waits even after an error: work that was queued before it must end, and its
  // faults must not count for the next step.
  if (!started.ok()) program.Finish().IgnoreError();
  return started;
}

absl::Status TrainingRun::NextBatch() {
  RETURN_IF_ERROR(executor().Finish());
  in_flight_->sum += double{GetScalar<float>(executor(), "loss")};
  ++in_flight_->batch;
  return StartBatch();
}

absl::StatusOr<double> TrainingRun::FinishBatches() {
  while (in_flight_->failed.ok() && !AtLastBatch()) {
    in_flight_->failed = NextBatch();
  }
  RETURN_IF_ERROR(in_flight_->failed);
  Executor& last = executor();
  RETURN_IF_ERROR(last.Finish());
  double sum = in_flight_->sum + double{GetScalar<float>(last, "loss")};
  // With several ranks both outputs are means over the ranks.
  if (link_ != nullptr) {
    sum = double{GetScalar<float>(last, "earlier_loss")} +
          double{GetScalar<float>(last, "loss")};
    stop_agreed_ = GetScalar<float>(last, "stop_wanted") > 0;
  } else {
    stop_agreed_ = stop_requested_;
  }
  return sum / batches_per_step();
}

absl::Status TrainingRun::NotFinite(const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " at step ", step(), " of ", length_.total_steps,
      "; hint: lower the learning rate (it is ", length_.base_learning_rate,
      "), set clip_gradient_norm, add warm-up steps, or scale the features"));
}

absl::StatusOr<double> TrainingRun::Loss() {
  RETURN_IF_ERROR(spoiled_);
  if (!loss_.has_value()) {
    return absl::FailedPreconditionError("no step was made yet");
  }
  return *loss_;
}

Manifest TrainingRun::NewManifest() const {
  Manifest manifest;
  manifest.job_id = request_.job_id;
  manifest.attempt = request_.attempt;
  manifest.step = step();
  manifest.epoch = step() / length_.steps_per_epoch;
  manifest.batch_in_epoch = step() % length_.steps_per_epoch;
  manifest.seed = request_.spec.training().seed();
  manifest.batch_size = batch_size();
  manifest.input_scaling =
      request_.spec.data().scaling().rule_case() != v1::Scaling::RULE_NOT_SET;
  manifest.model = request_.spec.model();
  manifest.files = ModelFiles(manifest.model);
  manifest.evaluation = history_.state();
  return manifest;
}

absl::StatusOr<std::unique_ptr<CheckpointCopy>> TrainingRun::TakeState(
    absl::StatusOr<WeightView> (*take)(const WeightStore&)) {
  RETURN_IF_ERROR(spoiled_);
  if (!leads()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank(), " of ", ranks(),
                     " does not write checkpoints; rank 0 does"));
  }
  ASSIGN_OR_RETURN(WeightView weights, take(*weights_));
  auto copy = std::make_unique<CheckpointCopy>(device_.blob_dir, NewManifest(),
                                               std::move(weights));
  // The loss was computed before the step, so it does not show what the step
  // did to the weights.
  const std::string name = copy->FirstNotFinite();
  if (name.empty()) return copy;
  return spoiled_ = NotFinite(absl::StrCat(
             "\"", name, "\" holds infinite or undefined numbers"));
}

absl::StatusOr<CheckpointWrite> TrainingRun::CopyCheckpoint() {
  ASSIGN_OR_RETURN(std::unique_ptr<CheckpointCopy> taken,
                   TakeState(&WeightView::Copy));
  const std::shared_ptr<const CheckpointCopy> copy = std::move(taken);
  return CheckpointWrite([copy] { return copy->Write(); });
}

absl::StatusOr<v1::Checkpoint> TrainingRun::SaveCheckpoint() {
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointCopy> state,
                   TakeState(&WeightView::Read));
  return state->Write();
}

absl::StatusOr<v1::Evaluation> TrainingRun::Evaluate() {
  RETURN_IF_ERROR(spoiled_);
  if (eval_ == nullptr) {
    return absl::FailedPreconditionError(
        "no rows are held out; set data.held_out or data.validation");
  }
  const TrainedOutput& leading = LeadingOf(outputs_);
  EvaluationMetrics metrics(leading.term.training, leading.shape);
  absl::StatusOr<EvaluationSums> found = SumHeldOutRows(metrics);
  if (!found.ok()) return Share(found.status());
  v1::Evaluation evaluation;
  evaluation.set_step(step());
  SetMeans(leading.term.training, *found, evaluation);
  evaluation.set_rows(held_out_rows_.size());
  // The metrics are those of the leading loss.
  metrics.Report(evaluation);
  evaluation.set_loss(SumOfLosses(outputs_, evaluation.loss(), *found));
  history_.Add(step(), evaluation.loss());
  // Stopping early would end such a job as succeeded.
  if (stopped_early()) RETURN_IF_ERROR(spoiled_ = CheckAnyStepCounted());
  return evaluation;
}

absl::StatusOr<EvaluationSums> TrainingRun::SumHeldOutRows(
    EvaluationMetrics& metrics) {
  if (link_ != nullptr) RETURN_IF_ERROR(link_->ShareState(*weights_));
  RETURN_IF_ERROR(eval_->Load());
  const uint64_t all = held_out_rows_.size();
  const uint64_t r = static_cast<uint64_t>(rank());
  // Consecutive parts, whose sizes differ by at most one row.
  const size_t begin = all * r / ranks(), end = all * (r + 1) / ranks();
  const auto rows =
      absl::MakeConstSpan(held_out_rows_).subspan(begin, end - begin);
  EvaluationSums sums;
  for (size_t done = 0; done < rows.size();) {
    const auto part = rows.subspan(done, static_cast<size_t>(eval_batch_));
    RETURN_IF_ERROR(FillInputs(
        {evaluated_table(), fed_, part, std::nullopt}, eval_->program().graph(),
        [this](absl::string_view name) { return eval_->input(name); }));
    const auto count = static_cast<int64_t>(part.size());
    SetScalar<int64_t>(*eval_, "row_count", count);
    metrics.TakeLabels(*eval_);
    RETURN_IF_ERROR(eval_->Run());
    AddBatch(*eval_, count, sums);
    AddOtherLosses(outputs_, *eval_, count, sums);
    metrics.AddBatch(*eval_, count);
    done += part.size();
  }
  if (link_ == nullptr) return sums;
  RETURN_IF_ERROR(metrics.AddRanks(*link_));
  return link_->Sum(sums);
}

absl::Status TrainingRun::StartProfile(uint32_t steps) {
  GPUPOOL_CHECK(!in_flight_.has_value());
  profile_.reset();
  if (link_ != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("the job runs on ", ranks(),
                     " devices; only jobs on one device can be profiled"));
  }
  const SteppedPrograms stepped = {
      {{"step", train_.get()},
       {"accumulate", accumulate_.get(), batches_per_step() - 1},
       {"short step", short_step_.get()}},
      arena_.bytes(),
      planned_peak_bytes_ - arena_.bytes()};
  LaunchTimer* const timer =
      device_.timer == nullptr ? nullptr : device_.timer();
  ASSIGN_OR_RETURN(profile_, StepProfile::Create(steps, stepped, timer));
  return absl::OkStatus();
}

absl::StatusOr<StoredProfile> TrainingRun::TakeProfile() {
  GPUPOOL_CHECK(profile_ != nullptr);
  const std::string trace = profile_->Trace();
  profile_.reset();
  ASSIGN_OR_RETURN(const WrittenBlob blob,
                   WriteBlob(device_.blob_dir, {absl::string_view(trace)}));
  return StoredProfile{blob.sha256, blob.bytes};
}

v1::MemoryUse TrainingRun::memory() const {
  v1::MemoryUse use;
  use.set_planned_peak_bytes(planned_peak_bytes_);
  use.set_measured_peak_bytes(holder_.peak_bytes());
  return use;
}

}  // namespace gpupool::engine
