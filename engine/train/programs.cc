#include "engine/train/programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/model_programs.h"
#include "engine/passes/pipeline.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

absl::StatusOr<Program> CompileGraph(Graph graph, DeviceBackend* backend) {
  RETURN_IF_ERROR(RunPasses(graph, {}, nullptr));
  return Program::Compile(std::move(graph), backend);
}

std::vector<ProgramBytes> AllBytes(const TrainingPrograms& programs) {
  std::vector<ProgramBytes> bytes = {programs.train.bytes()};
  if (programs.eval.has_value()) bytes.push_back(programs.eval->bytes());
  return bytes;
}

std::vector<ProgramBytes> AllBytes(const InferencePrograms& programs) {
  std::vector<ProgramBytes> bytes;
  for (const InferenceBucket& bucket : programs.buckets) {
    bytes.push_back(bucket.program.bytes());
  }
  return bytes;
}

absl::StatusOr<WeightLayout> LayoutOf(const TrainingPrograms& programs) {
  std::vector<const Graph*> graphs = {&programs.train.graph()};
  if (programs.eval.has_value()) graphs.push_back(&programs.eval->graph());
  return WeightLayout::Create(graphs);
}

}  // namespace

absl::StatusOr<TrainingPrograms> CompileTraining(const v1::JobSpec& spec,
                                                 const DataFacts& facts,
                                                 DeviceBackend* backend) {
  ASSIGN_OR_RETURN(const TrainingLength length, CheckTraining(spec, facts));
  const v1::Scaling& scaling = spec.data().scaling();
  ASSIGN_OR_RETURN(ModelGraph model,
                   BuildTrainingGraph(spec.model(), scaling, spec.training()));
  RETURN_IF_ERROR(CheckLabels(spec.training(), facts, model.output_shape));
  const uint64_t parameters = model.parameters();
  ASSIGN_OR_RETURN(Program train,
                   CompileGraph(std::move(model.graph), backend));
  TrainingPrograms programs{.length = length,
                            .train = std::move(train),
                            .persistents = std::move(model.persistents),
                            .output_shape = model.output_shape,
                            .parameters = parameters};
  if (length.held_out_rows > 0) {
    programs.eval_batch = static_cast<int64_t>(
        std::min<uint64_t>(length.held_out_rows, spec.training().batch_size()));
    ASSIGN_OR_RETURN(ModelGraph eval,
                     BuildEvalGraph(spec.model(), scaling, spec.training(),
                                    programs.eval_batch));
    ASSIGN_OR_RETURN(programs.eval,
                     CompileGraph(std::move(eval.graph), backend));
  }
  ASSIGN_OR_RETURN(programs.layout, LayoutOf(programs));
  return programs;
}

PlannedBytes BytesOf(const TrainingPrograms& programs) {
  return ReportBytes(programs.layout.bytes(), AllBytes(programs));
}

uint64_t ArenaBytesOf(const TrainingPrograms& programs) {
  return SharedArenaBytes(AllBytes(programs));
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
    const v1::ModelSpec& model, const InferenceOptions& options,
    DeviceBackend* backend) {
  if (options.max_batch_size < 1 || options.max_batch_size > kMaxServingBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_size ", options.max_batch_size,
                     " must be from 1 to ", kMaxServingBatch));
  }
  InferencePrograms programs;
  std::vector<const Graph*> graphs;
  for (int64_t batch : BatchBuckets(options.max_batch_size)) {
    ASSIGN_OR_RETURN(ModelGraph graph,
                     BuildInferenceGraph(model, options.input_scaling, batch));
    if (programs.buckets.empty()) {
      programs.parameters = graph.parameters();
      programs.layers = std::move(graph.layers);
      programs.input_shape = graph.input_shape;
      programs.output_shape = graph.output_shape;
    }
    ASSIGN_OR_RETURN(Program program,
                     CompileGraph(std::move(graph.graph), backend));
    programs.buckets.push_back({batch, std::move(program)});
  }
  for (const InferenceBucket& bucket : programs.buckets) {
    graphs.push_back(&bucket.program.graph());
  }
  ASSIGN_OR_RETURN(programs.layout, WeightLayout::Create(graphs));
  return programs;
}

PlannedBytes BytesOf(const InferencePrograms& programs) {
  return ReportBytes(programs.layout.bytes(), AllBytes(programs));
}

uint64_t ArenaBytesOf(const InferencePrograms& programs) {
  return SharedArenaBytes(AllBytes(programs));
}

}  // namespace gpupool::engine
