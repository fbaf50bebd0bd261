#include "engine/train/programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/job_limits.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/transform/transform_check.h"
#include "engine/model/losses.h"
#include "engine/model/model_programs.h"
#include "engine/model/precision.h"
#include "engine/passes/pipeline.h"
#include "engine/train/batch_source.h"
#include "engine/train/evaluation_metrics.h"
#include "engine/train/input/mask_check.h"
#include "engine/train/label_check.h"
#include "engine/train/step_programs.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

KernelOptions KernelOptionsOf(const v1::TrainingSpec& training,
                              Collective* collective) {
  KernelOptions options;
  options.collective = collective;
  options.tensor_float32 = AllowsTensorFloat32(training.precision());
  options.benchmark = training.benchmark();
  options.deterministic = training.deterministic();
  return options;
}

absl::StatusOr<Program> CompileGraph(Graph graph, DeviceBackend* backend,
                                     const KernelOptions& kernels,
                                     const PassOptions& options) {
  RETURN_IF_ERROR(RunPasses(graph, options, nullptr));
  return Program::Compile(std::move(graph), backend, kernels);
}

// Returns all programs, `train` first: its persistent values come first in the
// store.
std::vector<const Program*> AllPrograms(const TrainingPrograms& programs) {
  std::vector<const Program*> all = {&programs.train};
  if (programs.accumulate.has_value()) all.push_back(&*programs.accumulate);
  if (programs.short_step.has_value()) all.push_back(&*programs.short_step);
  if (programs.eval.has_value()) all.push_back(&*programs.eval);
  return all;
}

std::vector<ProgramBytes> AllBytes(const TrainingPrograms& programs) {
  std::vector<ProgramBytes> bytes;
  for (const Program* program : AllPrograms(programs)) {
    bytes.push_back(program->bytes());
  }
  return bytes;
}

absl::StatusOr<WeightLayout> LayoutOf(const TrainingPrograms& programs) {
  std::vector<const Graph*> graphs;
  for (const Program* program : AllPrograms(programs)) {
    graphs.push_back(&program->graph());
  }
  return WeightLayout::Create(graphs);
}

// Scaling is by the statistics of one array, for the only input.
absl::Status CheckScaling(const v1::Scaling& scaling, const ModelGraph& model) {
  if (scaling.rule_case() == v1::Scaling::RULE_NOT_SET ||
      model.inputs.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.scaling is for models with one input, but this one has ",
      model.inputs.size(), "; leave it out and scale the arrays themselves"));
}

// Matches each loss with an output of the model and a target of the dataset.
absl::StatusOr<std::vector<TrainedOutput>> MatchOutputs(
    const v1::TrainingSpec& training, const DataFacts& facts,
    const ModelGraph& model) {
  std::vector<TrainedOutput> outputs;
  for (LossTerm& term : LossTermsOf(training)) {
    ASSIGN_OR_RETURN(const ModelPort* port, OutputOf(term, model));
    TrainedOutput output{.shape = port->example()};
    DataFacts own = facts;
    ASSIGN_OR_RETURN(
        output.target,
        FindTarget(term.only ? term.field : absl::StrCat(term.field, ".target"),
                   term.target, own));
    const absl::Status fits = CheckLabels(term.training, own, output.shape);
    if (!fits.ok()) {
      return term.only ? fits
                       : absl::InvalidArgumentError(
                             absl::StrCat(term.field, ": ", fits.message()));
    }
    output.term = std::move(term);
    outputs.push_back(std::move(output));
  }
  return outputs;
}

// Checks that rows of data.validation fit the model and the losses as well.
// They have the form of the trained rows, so they fill the same inputs.
absl::Status CheckValidation(const v1::JobSpec& spec, const DataFacts& facts,
                             const ModelGraph& model) {
  if (facts.validation == nullptr) return absl::OkStatus();
  absl::Status fits =
      FeedTransformed(model.inputs, spec.data(), *facts.validation).status();
  if (fits.ok()) {
    fits = MatchOutputs(spec.training(), *facts.validation, model).status();
  }
  if (fits.ok()) return fits;
  return absl::InvalidArgumentError(
      absl::StrCat("data.validation: ", fits.message()));
}

// Returns the number of evaluated rows; 0 when their dataset does not exist
// yet, since it may have few.
uint64_t KnownHeldOutRows(const v1::JobSpec& spec, const DataFacts& facts,
                          const TrainingLength& length) {
  const bool assumed = spec.data().validation().empty()
                           ? facts.assumed
                           : facts.validation == nullptr;
  return assumed ? 0 : length.held_out_rows;
}

// Returns whether this number of targets divides a side of so many pixels, or
// has several for each pixel.
bool DividesSide(int64_t targets, int64_t pixels) {
  if (targets == pixels) return true;
  return targets > 1 && pixels > 1 &&
         (pixels % targets == 0 || targets % pixels == 0);
}

// Checks that the loss has no target for each place of the image: cutmix
// replaces pixels, but their targets stay. Two dimensions without channels or
// classes may be [boxes, numbers], so they are places only if they are the
// height and width of the image.
absl::Status CheckMixedTargets(const MixOptions& mix,
                               const TrainedOutput& output) {
  const auto shape = output.shape.dims();
  std::vector<int64_t> dims(shape.begin(), shape.end());
  const bool may_be_grid = dims.size() > 2;
  if (IsClassification(output.term.training)) {
    // MatchOutputs has made sure that there is one.
    dims.erase(dims.begin() + *ClassAxis(output.shape.rank()));
  }
  const size_t rank = dims.size();
  if (rank < 2) return absl::OkStatus();
  const int64_t height = dims[rank - 2];
  const int64_t width = dims[rank - 1];
  const ImageShape& image = mix.image;
  const bool same = height == image.height && width == image.width;
  const bool grid = may_be_grid && DividesSide(height, image.height) &&
                    DividesSide(width, image.width);
  if (!same && !grid) return absl::OkStatus();
  return Refuse("training.mix.cutmix_alpha: ", output.term.field,
                " compares numbers of ", height, " x ", width,
                " places in the image of ", image.height, " x ", image.width,
                " pixels, but the targets of replaced pixels stay; use ",
                "mixup_alpha instead");
}

// Returns how the job mixes rows; nothing when it does not.
absl::StatusOr<std::optional<MixOptions>> MixOf(
    const v1::TrainingSpec& training, const ModelGraph& model,
    const std::vector<TrainedOutput>& outputs) {
  ASSIGN_OR_RETURN(std::optional<MixOptions> mix,
                   MixOptionsOf(training, model.inputs));
  if (!mix.has_value()) return mix;
  for (const TrainedOutput& output : outputs) {
    RETURN_IF_ERROR(CheckMixedTargets(*mix, output));
  }
  return mix;
}

// Adds an input for targets, which must not fill one of the model.
absl::Status AddTarget(FedInput target, std::vector<FedInput>& fed) {
  for (const FedInput& other : fed) {
    if (other.name != target.name) continue;
    return Refuse("the model's input '", other.name, "' has the name of the ",
                  "targets of a batch; rename it");
  }
  fed.push_back(std::move(target));
  return absl::OkStatus();
}

// Adds the inputs for the loss's target; a program has one of the two. With
// mixing it has another one for the mixed-in rows.
absl::Status AddTargets(const TrainedOutput& output, bool mixed,
                        std::vector<FedInput>& fed) {
  for (const char* name : {"labels", "target"}) {
    const std::string full = absl::StrCat(name, output.term.suffix);
    RETURN_IF_ERROR(AddTarget(
        {.name = full, .target = true, .column = output.target}, fed));
    if (!mixed) continue;
    RETURN_IF_ERROR(AddTarget({.name = absl::StrCat(kMixedPrefix, full),
                               .target = true,
                               .mixed = true,
                               .column = output.target},
                              fed));
  }
  return absl::OkStatus();
}

// Returns the number of tokens in a row of the input; 0 when nothing is known.
uint64_t TokensOf(const FedInput& input, const DataFacts& facts) {
  if (facts.assumed) return 0;
  const auto& shape = facts.inputs.empty() ? facts.feature_shape
                                           : facts.inputs[input.column].shape;
  return CheckedElementCount(shape).value_or(0);
}

// Checks that the loss ignores a label, and that each token has one.
absl::Status CheckMaskedLoss(const TrainedOutput& output, uint64_t tokens,
                             const DataFacts& facts) {
  const v1::TrainingSpec& training = output.term.training;
  if (!IsClassification(training) || !IgnoredLabel(training).has_value()) {
    return Refuse(output.term.field, " is ", LossName(training),
                  " without ignore_label, but labels of tokens that stay must ",
                  "count nowhere; use cross_entropy: {ignore_label: -100}");
  }
  if (tokens == 0) return absl::OkStatus();
  const LabelFacts& labels = facts.targets.empty()
                                 ? facts.labels
                                 : facts.targets[output.target].labels;
  if (labels.numbers() == tokens) return absl::OkStatus();
  return Refuse("a row has ", tokens, " tokens, but ", labels.numbers(),
                " labels; the target must have the label of each token, such ",
                "as the token itself");
}

// A random_mask among the transforms of a job.
struct MaskPlace {
  const v1::JobSpec& spec;
  int index = 0;  // in data.transforms
};

// Returns the losses that read the labels which the mask changes.
absl::StatusOr<std::vector<const TrainedOutput*>> MaskedOutputs(
    const std::string& target, const std::vector<TrainedOutput>& outputs,
    const DataFacts& facts) {
  if (target.empty()) {
    if (outputs.size() == 1) return std::vector{&outputs[0]};
    return Refuse("the job has ", outputs.size(),
                  " losses; set target to that of the dataset whose labels ",
                  "belong to the tokens");
  }
  DataFacts own = facts;
  ASSIGN_OR_RETURN(const size_t column, FindTarget("target", target, own));
  std::vector<const TrainedOutput*> found;
  for (const TrainedOutput& output : outputs) {
    // Without the data, targets are known by their names only.
    if (facts.assumed ? output.term.target == target
                      : output.target == column) {
      found.push_back(&output);
    }
  }
  if (!found.empty()) return found;
  return Refuse("no loss reads the target '", target,
                "'; set target to one that training.losses names");
}

// Returns the input for the labels of the loss, which AddTargets has added.
FedInput& LabelsOf(const TrainedOutput& output, std::vector<FedInput>& fed) {
  const std::string name = absl::StrCat("labels", output.term.suffix);
  const auto labels =
      std::find_if(fed.begin(), fed.end(),
                   [&](const FedInput& one) { return one.name == name; });
  GPUPOOL_CHECK(labels != fed.end());
  return *labels;
}

// Adds the mask to its input and to the targets of the losses that read its
// labels.
absl::Status AddMask(const MaskPlace& place, const DataFacts& facts,
                     const std::vector<TrainedOutput>& outputs,
                     std::vector<FedInput>& fed) {
  const v1::Transform& transform = place.spec.data().transforms(place.index);
  const v1::Transform::RandomMask& random_mask = transform.random_mask();
  // FeedTransformed has made sure that there is one.
  const auto input =
      std::find_if(fed.begin(), fed.end(), [&](const FedInput& one) {
        return !one.target && IsForInput(transform, one.name);
      });
  GPUPOOL_CHECK(input != fed.end());
  if (input->mask.has_value()) {
    return Refuse("the input '", input->name,
                  "' has another random_mask before; leave one of them out");
  }
  const uint64_t tokens = TokensOf(*input, facts);
  if (tokens > kMaxMaskedTokens) {
    return Refuse("a row has ", tokens, " tokens; at most ", kMaxMaskedTokens,
                  " can be masked");
  }
  const FedMask mask = {
      .mask = TokenMask(random_mask, static_cast<uint64_t>(place.index)),
      .seed = place.spec.training().seed(),
      .tokens = input->column};
  input->mask = mask;
  ASSIGN_OR_RETURN(const auto masked,
                   MaskedOutputs(random_mask.target(), outputs, facts));
  for (const TrainedOutput* output : masked) {
    RETURN_IF_ERROR(CheckMaskedLoss(*output, tokens, facts));
    FedInput& labels = LabelsOf(*output, fed);
    if (labels.mask.has_value()) {
      return Refuse("another random_mask changes the same labels; leave one ",
                    "of them out");
    }
    labels.mask = mask;
    labels.mask->ignored = *IgnoredLabel(output->term.training);
  }
  return absl::OkStatus();
}

// Adds the masks of the job. Their targets must be among the fed inputs.
absl::Status AddMasks(const v1::JobSpec& spec, const DataFacts& facts,
                      const std::vector<TrainedOutput>& outputs,
                      std::vector<FedInput>& fed) {
  for (int i = 0; i < spec.data().transforms_size(); ++i) {
    const v1::Transform& transform = spec.data().transforms(i);
    if (!transform.has_random_mask()) continue;
    RETURN_IF_ERROR(AtPlace(TransformPlace(i, transform),
                            AddMask({spec, i}, facts, outputs, fed)));
  }
  return absl::OkStatus();
}

// The model of a job.
struct TrainedModel {
  const ModelSource& source;
  const v1::Scaling& scaling;
  const v1::TrainingSpec& training;
};

uint32_t BatchesPerStep(const v1::TrainingSpec& training) {
  return Accumulates(training) ? training.accumulate_batches() : 1;
}

// Returns nothing when a step has one batch.
absl::StatusOr<std::optional<ModelGraph>> AccumulationGraph(
    const TrainedModel& model) {
  if (!Accumulates(model.training)) return std::optional<ModelGraph>();
  ASSIGN_OR_RETURN(
      ModelGraph graph,
      BuildAccumulationGraph(model.source, model.scaling, model.training));
  return std::optional<ModelGraph>(std::move(graph));
}

// Returns the graph of a step of `rows` rows in all; nothing without rows.
absl::StatusOr<std::optional<ModelGraph>> ShortStepGraph(
    const TrainedModel& model, uint64_t rows, uint32_t devices) {
  if (rows == 0) return std::optional<ModelGraph>();
  v1::TrainingSpec training = model.training;
  training.set_batch_size(static_cast<uint32_t>(rows / devices));
  absl::StatusOr<ModelGraph> graph = BuildTrainingGraph(
      model.source, model.scaling, training, static_cast<int>(devices));
  if (graph.ok()) return std::optional<ModelGraph>(*std::move(graph));
  return AtPlace(
      absl::StrCat("data.drop_last is false, and the last batch of an epoch "
                   "has ",
                   rows, " rows"),
      graph.status());
}

const Graph* GraphOf(const std::optional<ModelGraph>& model) {
  return model.has_value() ? &model->graph : nullptr;
}

// Returns the rows of an evaluation's batch; 0 when no rows are held out. Every
// rank evaluates its share of them.
int64_t EvalBatch(const TrainingLength& length,
                  const v1::TrainingSpec& training, uint32_t devices) {
  const uint64_t rows = (length.held_out_rows + devices - 1) / devices;
  return static_cast<int64_t>(std::min<uint64_t>(rows, training.batch_size()));
}

// Returns nothing for a batch of 0 rows.
absl::StatusOr<std::optional<Program>> CompileEval(
    const TrainedModel& model, int64_t batch, DeviceBackend* backend,
    const KernelOptions& kernels) {
  if (batch == 0) return std::optional<Program>();
  ASSIGN_OR_RETURN(ModelGraph eval, BuildEvalGraph(model.source, model.scaling,
                                                   model.training, batch));
  ASSIGN_OR_RETURN(
      Program program,
      CompileGraph(std::move(eval.graph), backend, kernels,
                   {.compute = ComputeType(model.training.precision())}));
  return std::optional<Program>(std::move(program));
}

}  // namespace

absl::StatusOr<TrainingPrograms> CompileTraining(const ModelSource& source,
                                                 const v1::JobSpec& spec,
                                                 const DataFacts& facts,
                                                 const TrainingDevice& device) {
  DeviceBackend* const backend = device.backend;
  ASSIGN_OR_RETURN(const TrainingLength length, CheckTraining(spec, facts));
  const v1::Scaling& scaling = spec.data().scaling();
  const uint32_t devices = DevicesOf(spec);
  v1::TrainingSpec training = spec.training();
  // Each device gets an equal share of the batch; CheckTraining has made sure
  // that there is one.
  training.set_batch_size(training.batch_size() / devices);
  const KernelOptions kernels = KernelOptionsOf(training, device.collective);
  ASSIGN_OR_RETURN(
      ModelGraph model,
      BuildTrainingGraph(source, scaling, training, static_cast<int>(devices)));
  ASSIGN_OR_RETURN(std::vector<FedInput> fed,
                   FeedTransformed(model.inputs, spec.data(), facts));
  RETURN_IF_ERROR(CheckScaling(scaling, model));
  ASSIGN_OR_RETURN(std::vector<TrainedOutput> outputs,
                   MatchOutputs(training, facts, model));
  RETURN_IF_ERROR(CheckValidation(spec, facts, model));
  const TrainedOutput& leading = LeadingOf(outputs);
  RETURN_IF_ERROR(CheckMetricSizes(leading.term.training, leading.shape,
                                   KnownHeldOutRows(spec, facts, length)));
  ASSIGN_OR_RETURN(std::optional<MixOptions> mix,
                   MixOf(training, model, outputs));
  for (const TrainedOutput& output : outputs) {
    RETURN_IF_ERROR(AddTargets(output, mix.has_value(), fed));
  }
  RETURN_IF_ERROR(AddMasks(spec, facts, outputs, fed));
  RETURN_IF_ERROR(CheckMaskTokens(spec.data(), model));
  const TrainedModel trained = {source, scaling, training};
  const int64_t eval_batch = EvalBatch(length, training, devices);
  ASSIGN_OR_RETURN(std::optional<Program> eval,
                   CompileEval(trained, eval_batch, backend, kernels));
  ASSIGN_OR_RETURN(const std::optional<ModelGraph> accumulate,
                   AccumulationGraph(trained));
  ASSIGN_OR_RETURN(const std::optional<ModelGraph> short_step,
                   ShortStepGraph(trained, length.short_step_rows, devices));
  ASSIGN_OR_RETURN(StepPrograms steps,
                   CompileSteps({.train = &model.graph,
                                 .accumulate = GraphOf(accumulate),
                                 .short_step = GraphOf(short_step),
                                 .batches_per_step = BatchesPerStep(training)},
                                training.recompute(),
                                {.backend = backend,
                                 .kernels = kernels,
                                 .eval = eval.has_value() ? &*eval : nullptr}));
  const uint64_t parameters = model.parameters();
  TrainingPrograms programs{.length = length,
                            .train = std::move(steps.train),
                            .accumulate = std::move(steps.accumulate),
                            .short_step = std::move(steps.short_step),
                            .eval = std::move(eval),
                            .persistents = std::move(model.persistents),
                            .warnings = std::move(model.warnings),
                            .fed = std::move(fed),
                            .outputs = std::move(outputs),
                            .parameters = parameters,
                            .eval_batch = eval_batch,
                            .batches_per_step = BatchesPerStep(training),
                            .mix = std::move(mix)};
  if (!steps.note.empty()) programs.warnings.push_back(std::move(steps.note));
  ASSIGN_OR_RETURN(programs.layout, LayoutOf(programs));
  return programs;
}

const TrainedOutput& LeadingOf(const std::vector<TrainedOutput>& outputs) {
  const auto leading = std::find_if(
      outputs.begin(), outputs.end(),
      [](const TrainedOutput& output) { return output.term.leads; });
  GPUPOOL_CHECK(leading != outputs.end());
  return *leading;
}

absl::Status CheckNumbers(const TrainingPrograms& programs,
                          const Table& table) {
  RETURN_IF_ERROR(CheckFedNumbers(table, programs.fed, programs.train.graph()));
  for (const TrainedOutput& output : programs.outputs) {
    RETURN_IF_ERROR(CheckLabelValues(
        output.term.training, table.targets[output.target], output.shape));
  }
  return absl::OkStatus();
}

LandingLayout BatchLayout(const TrainingPrograms& programs) {
  LandingLayout layout;
  const auto add = [&](const std::string& name) {
    const Value* value = programs.train.graph().FindValue(name);
    if (value == nullptr || value->kind != ValueKind::kInput) return;
    layout.Add(name, value->bytes());
  };
  for (const FedInput& fed : programs.fed) add(fed.name);
  if (programs.mix.has_value()) add(kMixLambdaName);
  return layout;
}

absl::StatusOr<uint64_t> PrefetchedBytes(const v1::DataSpec& data,
                                         const TrainingPrograms& programs) {
  const uint64_t batches = PrefetchedBatches(data);
  const uint64_t batch_bytes = BatchLayout(programs).bytes;
  if (batches == 0 || batch_bytes <= kMaxPrefetchedBytes / batches) {
    return batches * batch_bytes;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.loader makes ", batches, " batches of ", batch_bytes,
      " bytes ahead; at most ", kMaxPrefetchedBytes,
      " bytes are allowed; lower data.loader.prefetch or batch_size"));
}

void PlanLanding(const v1::JobSpec& spec, uint64_t limit_bytes,
                 TrainingPrograms& programs) {
  Program& train = programs.train;
  if (train.backend().transfer().beside() == nullptr) return;
  LandingLayout landing = BatchLayout(programs);
  const uint64_t planned = BytesOf(programs).peak;
  const uint64_t budget = spec.training().recompute().budget_bytes();
  for (const auto& [what, limit] :
       {std::pair("the limit", limit_bytes),
        std::pair("recompute.budget_bytes", budget)}) {
    if (limit == 0 || planned + landing.bytes <= limit) continue;
    programs.warnings.push_back(
        absl::StrCat("batches are not copied to the device ahead of their "
                     "steps: that takes ",
                     landing.bytes, " bytes, and ", what, " of ", limit,
                     " leaves ", limit - std::min(limit, planned),
                     " beside the ", planned, " of the job"));
    return;
  }
  programs.landing = std::move(landing);
}

PlannedBytes BytesOf(const TrainingPrograms& programs) {
  PlannedBytes bytes = ReportBytes(programs.layout.bytes(), AllBytes(programs));
  bytes.next_batch = programs.landing.bytes;
  bytes.peak += bytes.next_batch;
  return bytes;
}

uint64_t ArenaBytesOf(const TrainingPrograms& programs) {
  return SharedArenaBytes(AllBytes(programs));
}

uint64_t StepFlopsOf(const TrainingPrograms& programs) {
  uint64_t flops = GraphFlops(programs.train.graph());
  if (programs.accumulate.has_value()) {
    flops += (programs.batches_per_step - 1) *
             GraphFlops(programs.accumulate->graph());
  }
  return flops;
}

}  // namespace gpupool::engine
