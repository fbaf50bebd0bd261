#include "engine/serving/inference_programs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/model/model_programs.h"
#include "engine/passes/formats/narrow_weights.h"
#include "engine/passes/pipeline.h"
#include "engine/serving/bound_numbers.h"
#include "engine/serving/resident_budget.h"
#include "engine/serving/row_analysis.h"
#include "engine/serving/size_analysis.h"
#include "engine/serving/stage_plan.h"
#include "engine/serving/stage_summary.h"

namespace gpupool::engine {
namespace {

constexpr uint32_t kMaxBatchRows = v1::MAX_SERVED_ROWS;
constexpr uint32_t kMaxPrograms = v1::MAX_SERVED_PROGRAMS;

// Returns "sequence=64, batch 8"; empty for models of one size.
std::string KeyText(const ServedSizes& served, const ProgramKey& key) {
  std::string text;
  for (size_t i = 0; i < key.sizes.size(); ++i) {
    absl::StrAppend(&text, served.dimensions[i].name, "=", key.sizes[i], ", ");
  }
  if (!served.empty()) absl::StrAppend(&text, "batch ", key.batch);
  return text;
}

// Puts the sizes of the program in front of an error.
absl::Status At(const std::string& where, const absl::Status& status) {
  return where.empty() ? status : AtPlace(absl::StrCat("for ", where), status);
}

// Adds the remedy to an error about shapes that depend on numbers.
absl::Status AskForNumbers(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::FailedPreconditionError(absl::StrCat(
      status.message(), "; to serve the model give numbers of them to plan ",
      "with, the largest that will come (bound_inputs, --bound NAME=NUMBERS)"));
}

// A program before it is compiled, with its casts.
struct Draft {
  ProgramKey key;
  Graph graph;
  std::vector<Shape> outputs;
  std::shared_ptr<const StageEnd> stage_end;
};

// Returns the names of the passes before the one that stores weights in 16
// bits, or of that one and those after it.
enum class Half { kFirst, kLast };
std::vector<std::string> Passes(Half half) {
  const std::vector<absl::string_view> all = PassNames();
  const auto middle = std::find(all.begin(), all.end(), "narrow");
  if (half == Half::kFirst) return {all.begin(), middle};
  return {middle, all.end()};
}

// Returns the weights that are read only as 16 bits in every draft that has
// them.
absl::flat_hash_set<std::string> NarrowInAll(const std::vector<Draft>& drafts,
                                             DType low) {
  absl::flat_hash_set<std::string> narrow;
  if (low == DType::kFloat32) return narrow;
  absl::flat_hash_set<std::string> wide;
  for (const Draft& draft : drafts) {
    const auto found = FindNarrowWeights(draft.graph, low);
    for (const Value& value : draft.graph.values()) {
      if (value.kind != ValueKind::kPersistent) continue;
      (found.contains(value.name) ? narrow : wide).insert(value.name);
    }
  }
  // A weight that some program reads in float32 must keep all its bits.
  for (const std::string& name : wide) narrow.erase(name);
  return narrow;
}

// Compiles the programs of one model.
class Compiler {
 public:
  Compiler(const ModelSource& source, const InferenceOptions& options,
           DeviceBackend* backend)
      : source_(source), options_(options), backend_(backend) {}

  absl::StatusOr<ModelGraph> Build(
      const ProgramKey& key,
      absl::flat_hash_map<std::string, std::vector<double>> bound) const {
    BuildOptions options{.batch = key.batch,
                         .bound = std::move(bound),
                         .input_scaling = options_.input_scaling,
                         .answers = key.answers};
    const auto& dimensions = source_.served().dimensions;
    for (size_t i = 0; i < dimensions.size(); ++i) {
      options.dimensions[dimensions[i].name] = key.sizes[i];
    }
    absl::StatusOr<ModelGraph> model = BuildInferenceGraph(source_, options);
    if (model.ok()) return model;
    return At(KeyText(source_.served(), key), AskForNumbers(model.status()));
  }

  // Runs the passes up to the casts, which decide the types in which weights
  // are stored.
  absl::StatusOr<Draft> Prepare(ProgramKey key, ModelGraph model) const {
    Draft draft{.key = std::move(key),
                .graph = std::move(model.graph),
                .stage_end = std::move(model.stage_end)};
    for (const ModelPort& port : model.outputs) {
      draft.outputs.push_back(port.shape);
    }
    const absl::Status status =
        RunPasses(draft.graph,
                  {.off = Passes(Half::kLast),
                   .compute = options_.compute,
                   .integer_products = backend_->PrefersIntegerProducts()},
                  nullptr);
    if (!status.ok()) return At(KeyText(source_.served(), draft.key), status);
    return draft;
  }

  // Runs the remaining passes and compiles the draft.
  absl::StatusOr<InferenceProgram> Compile(
      Draft draft, const absl::flat_hash_set<std::string>& narrow) const {
    absl::StatusOr<Program> program =
        CompileGraph(std::move(draft.graph), narrow);
    if (!program.ok()) {
      return At(KeyText(source_.served(), draft.key), program.status());
    }
    return InferenceProgram{std::move(draft.key), *std::move(program),
                            std::move(draft.outputs),
                            std::move(draft.stage_end)};
  }

 private:
  absl::StatusOr<Program> CompileGraph(
      Graph graph, const absl::flat_hash_set<std::string>& narrow) const {
    RETURN_IF_ERROR(RunPasses(graph,
                              {.off = Passes(Half::kFirst),
                               .compute = options_.compute,
                               .narrow = narrow},
                              nullptr));
    return Program::Compile(std::move(graph), backend_, options_.kernels);
  }

  const ModelSource& source_;
  const InferenceOptions options_;
  DeviceBackend* const backend_;
};

bool AllBatched(const std::vector<ModelPort>& ports) {
  return std::all_of(ports.begin(), ports.end(),
                     [](const ModelPort& port) { return port.batched; });
}

// Returns whether the first dimension of every output is as long as the batch.
bool FollowsBatch(const ModelGraph& model, int64_t batch) {
  return std::all_of(model.outputs.begin(), model.outputs.end(),
                     [&](const ModelPort& port) {
                       return port.shape.rank() > 0 && port.shape[0] == batch;
                     });
}

// Returns the warning about a model whose rows may influence each other.
std::string AloneWarning(const std::string& obstacle) {
  return absl::StrCat(
      obstacle, " may let the rows of a batch influence each other, so every ",
      "request is computed alone; to have requests share batches, export the ",
      "model so that each row is computed from its own inputs only");
}

// Returns the warning about a model that runs in stages.
std::string StagesWarning(const std::string& node) {
  return absl::StrCat(
      node, " decides with computed values how the model runs, so it runs in ",
      "stages: every request is computed alone, and values that were not seen ",
      "lately make programs, which takes longer");
}

// Fills in everything except programs, layout and variable axes.
void Describe(const ModelGraph& model, InferencePrograms& programs) {
  programs.batched = AllBatched(model.inputs) && AllBatched(model.outputs) &&
                     model.bound.empty();
  programs.parameters = model.parameters();
  programs.persistents = model.persistents;
  programs.layers = model.layers;
  programs.warnings = model.warnings;
  for (const ModelPort& port : model.inputs) programs.inputs.push_back({port});
  for (const ModelPort& port : model.bound) {
    programs.inputs.push_back({.port = port, .bound = true});
  }
  // Requests carry the bytes of bound inputs in this order.
  std::sort(programs.inputs.end() - static_cast<int64_t>(model.bound.size()),
            programs.inputs.end(), [](const auto& a, const auto& b) {
              return a.port.name < b.port.name;
            });
  for (const ModelPort& port : model.outputs) {
    programs.outputs.push_back({port});
  }
}

absl::Status CheckOptions(const InferenceOptions& options) {
  if (options.max_batch_size < 1 || options.max_batch_size > kMaxBatchRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_size ", options.max_batch_size,
                     " must be from 1 to ", kMaxBatchRows));
  }
  if (options.max_programs < 1 || options.max_programs > kMaxPrograms) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_programs ", options.max_programs,
                     " must be from 1 to ", kMaxPrograms));
  }
  return absl::OkStatus();
}

// Plans a model and fills in `programs` step by step.
class Planner {
 public:
  Planner(const ModelSource& source, const InferenceOptions& options,
          DeviceBackend* backend)
      : served_(source.served()),
        options_(options),
        compiler_(source, options, backend) {
    programs_.options = options;
  }

  absl::StatusOr<InferencePrograms> Plan() {
    ASSIGN_OR_RETURN(const auto sizes, SizesToPlan(served_));
    ASSIGN_OR_RETURN(ModelGraph first, Build({.sizes = sizes[0]}));
    if (first.stage_end != nullptr) {
      RETURN_IF_ERROR(PlanStages(std::move(first)));
    } else {
      RETURN_IF_ERROR(PlanSizes(sizes, std::move(first)));
    }
    return CompileAll();
  }

 private:
  // Plans programs for batches and sizes of a model that is one stage.
  // `first` is the one for the first sizes and a batch of one.
  absl::Status PlanSizes(const std::vector<std::vector<int64_t>>& sizes,
                         ModelGraph first) {
    RETURN_IF_ERROR(AddBatches(sizes[0], std::move(first)));
    for (size_t i = 1; i < sizes.size(); ++i) {
      const ProgramKey key{.batch = int64_t{programs_.max_batch_size},
                           .sizes = sizes[i]};
      ASSIGN_OR_RETURN(ModelGraph model, Build(key));
      RETURN_IF_ERROR(Add(key, std::move(model)));
    }
    RETURN_IF_ERROR(AnalyseRows(sizes[0]));
    if (!served_.empty()) {
      programs_.max_programs = options_.max_programs;
      // Probes are built for their shapes only; they become no programs.
      for (auto& probe : SizesToProbe(served_)) {
        const ProgramKey key{.batch = 1, .sizes = std::move(probe)};
        const absl::StatusOr<ModelGraph> model = Build(key);
        // A request of served sizes gets this error, and others do not.
        if (!model.ok() && IsServed(key.sizes)) continue;
        RETURN_IF_ERROR(model.status());
        analysis_.Add(key.sizes, *model);
      }
      RETURN_IF_ERROR(analysis_.Finish(served_, programs_));
    }
    return absl::OkStatus();
  }

  absl::Status PlanStages(ModelGraph first) {
    if (!served_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(first.stage_end->node,
                       ": the model runs in stages, because computed ",
                       "values decide how; such a model is served with one "
                       "size and without ",
                       "bound inputs: give each dimension one size "
                       "(--dimension NAME=SIZE)"));
    }
    programs_.warnings.push_back(StagesWarning(first.stage_end->node));
    StageSummary summary(programs_);
    const auto build = [&](const StageAnswers& answers) {
      return Build({.answers = answers});
    };
    const auto add = [&](const StageAnswers& answers,
                         ModelGraph model) -> absl::Status {
      RETURN_IF_ERROR(summary.Add(model));
      ASSIGN_OR_RETURN(Draft draft, compiler_.Prepare({.answers = answers},
                                                      std::move(model)));
      drafts_.push_back(std::move(draft));
      return absl::OkStatus();
    };
    StagePlanner planner(build, add);
    RETURN_IF_ERROR(planner.Plan(std::move(first)));
    programs_.passed_bytes = planner.PassedBytes();
    // One request must not remove the programs that it needs again.
    programs_.max_programs = std::min(
        kMaxPrograms,
        std::max(options_.max_programs, static_cast<uint32_t>(drafts_.size())));
    summary.Finish();
    return absl::OkStatus();
  }

  absl::StatusOr<InferencePrograms> CompileAll() {
    // All programs share the weights, so the types are decided when every draft
    // exists and before any is compiled.
    programs_.narrow = NarrowInAll(drafts_, options_.compute);
    for (Draft& draft : drafts_) {
      ASSIGN_OR_RETURN(InferenceProgram program,
                       compiler_.Compile(std::move(draft), programs_.narrow));
      programs_.programs.push_back(std::move(program));
    }
    std::vector<const Graph*> graphs;
    for (const InferenceProgram& program : programs_.programs) {
      graphs.push_back(&program.program.graph());
    }
    ASSIGN_OR_RETURN(programs_.layout, WeightLayout::Create(graphs));
    return std::move(programs_);
  }

  absl::StatusOr<ModelGraph> Build(const ProgramKey& key) const {
    return compiler_.Build(key, {served_.bound.begin(), served_.bound.end()});
  }

  bool IsServed(const std::vector<int64_t>& sizes) const {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!served_.dimensions[i].Takes(sizes[i])) return false;
    }
    return true;
  }

  absl::Status AddBatches(const std::vector<int64_t>& sizes,
                          std::optional<ModelGraph> first) {
    for (int64_t batch : BatchBuckets(options_.max_batch_size)) {
      const ProgramKey key{.batch = batch, .sizes = sizes};
      ASSIGN_OR_RETURN(
          ModelGraph model,
          first ? *std::exchange(first, std::nullopt) : Build(key));
      // In a batch of one, any first dimension of 1 looks like the batch.
      if (!drafts_.empty() && !FollowsBatch(model, batch)) {
        programs_.batched = false;
        break;
      }
      RETURN_IF_ERROR(Add(key, std::move(model)));
      programs_.max_batch_size = static_cast<uint32_t>(batch);
      // Without a batch dimension all buckets would be the same program.
      if (!programs_.batched) break;
    }
    return absl::OkStatus();
  }

  absl::Status Add(ProgramKey key, ModelGraph model) {
    if (model.stage_end != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          model.stage_end->node, ": for some batches and sizes only, computed ",
          "values decide how the model runs; serve it with one size and ",
          "--max-batch-size 1"));
    }
    // The first draft has the largest sizes, with which ports are described.
    if (drafts_.empty()) Describe(model, programs_);
    ASSIGN_OR_RETURN(key.bound,
                     PlannedBoundBytes(served_.bound, programs_.inputs));
    RETURN_IF_ERROR(
        CheckKeptBoundBytes(key.bound.size(), options_.max_programs));
    analysis_.Add(key.sizes, model);
    if (programs_.batched && key.batch > 1) {
      rows_.Add(model, key.batch, key.sizes);
    }
    ASSIGN_OR_RETURN(Draft draft,
                     compiler_.Prepare(std::move(key), std::move(model)));
    drafts_.push_back(std::move(draft));
    return absl::OkStatus();
  }

  // Decides whether requests may share a batch.
  absl::Status AnalyseRows(const std::vector<int64_t>& sizes) {
    if (!programs_.batched || programs_.max_batch_size == 1) {
      return absl::OkStatus();
    }
    if (!rows_.compared() && !rows_.obstacle().has_value()) {
      // Only one batch above 1 is planned, so another is built to compare.
      const int64_t batch = int64_t{programs_.max_batch_size} + 1;
      ASSIGN_OR_RETURN(const ModelGraph model,
                       Build({.batch = batch, .sizes = sizes}));
      rows_.Add(model, batch, sizes);
    }
    if (!rows_.obstacle().has_value()) return absl::OkStatus();
    programs_.computes_alone = true;
    programs_.warnings.push_back(AloneWarning(*rows_.obstacle()));
    // A program for each number of rows is made when a request has it.
    programs_.max_programs = options_.max_programs;
    return absl::OkStatus();
  }

  const ServedSizes& served_;
  const InferenceOptions& options_;
  const Compiler compiler_;
  SizeAnalysis analysis_;
  RowAnalysis rows_;
  std::vector<Draft> drafts_;
  InferencePrograms programs_;
};

std::vector<SizedBytes> AllBytes(const InferencePrograms& programs) {
  std::vector<SizedBytes> bytes;
  for (const InferenceProgram& program : programs.programs) {
    bytes.push_back({program.key.sizes, program.program.bytes()});
  }
  return bytes;
}

std::vector<ProgramBytes> PlainBytes(const InferencePrograms& programs) {
  std::vector<ProgramBytes> bytes;
  for (const InferenceProgram& program : programs.programs) {
    bytes.push_back(program.program.bytes());
  }
  return bytes;
}

}  // namespace

bool VariableAxis::Follows(const ServedSizes& served, size_t d) const {
  return dimension == static_cast<int>(d) ||
         (size.has_value() && size->Uses(served.dimensions[d].name));
}

absl::StatusOr<int64_t> VariableAxis::Size(
    const ServedSizes& served, absl::Span<const int64_t> sizes) const {
  if (dimension >= 0) return sizes[static_cast<size_t>(dimension)];
  if (size.has_value()) return served.Size(*size, sizes);
  return maximum;
}

std::vector<int64_t> BatchBuckets(uint32_t max_batch_size) {
  std::vector<int64_t> buckets;
  for (int64_t batch = 1; batch < int64_t{max_batch_size}; batch *= 2) {
    buckets.push_back(batch);
  }
  buckets.push_back(max_batch_size);
  return buckets;
}

absl::StatusOr<InferencePrograms> CompileInference(
    const ModelSource& source, const InferenceOptions& options,
    DeviceBackend* backend) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Planner(source, options, backend).Plan();
}

absl::StatusOr<InferenceProgram> CompileProgram(
    const ModelSource& source, const InferencePrograms& planned,
    const ProgramKey& key, DeviceBackend* backend) {
  const Compiler compiler(source, planned.options, backend);
  ASSIGN_OR_RETURN(auto bound, BoundNumbers(planned.inputs, key.bound));
  ASSIGN_OR_RETURN(ModelGraph model, compiler.Build(key, std::move(bound)));
  if (planned.batched && !planned.computes_alone && key.batch > 1) {
    const auto obstacle = FindRowObstacle(model, key.batch);
    if (obstacle.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "for ", KeyText(source.served(), key), ": ", *obstacle,
          " may let the rows of a batch influence each other, which it does ",
          "not for the planned sizes; upload the model with a list of sizes ",
          "that has these, or with --max-batch-size 1"));
    }
  }
  ASSIGN_OR_RETURN(Draft draft, compiler.Prepare(key, std::move(model)));
  return compiler.Compile(std::move(draft), planned.narrow);
}

PlannedBytes BytesOf(const InferencePrograms& programs) {
  const std::vector<ProgramBytes> bytes = PlainBytes(programs);
  PlannedBytes report = ReportBytes(programs.layout.bytes(), bytes);
  report.activations += programs.passed_bytes;
  report.peak += programs.passed_bytes;
  if (programs.max_programs == 0) return report;
  const uint64_t planned = ResidentBytes(bytes);
  const uint64_t budget =
      ResidentBudget(AllBytes(programs), programs.max_programs);
  // Programs for other sizes have other residents than the planned ones, so the
  // planned bytes are replaced by a budget for any of them.
  report.workspace = report.workspace - planned + budget;
  report.peak = report.peak - planned + budget;
  return report;
}

uint64_t ArenaBytesOf(const InferencePrograms& programs) {
  return SharedArenaBytes(PlainBytes(programs));
}

}  // namespace gpupool::engine
