#include "engine/check_model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/describe_file.h"
#include "engine/import/onnx/onnx_model_source.h"
#include "engine/model/default_training.h"
#include "engine/model/model_programs.h"
#include "engine/model/precision.h"
#include "engine/passes/pipeline.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"
#include "engine/session_convert.h"
#include "engine/train/fed_inputs.h"
#include "engine/train/job_check.h"

namespace gpupool::engine {
namespace {

using Source = std::shared_ptr<const ModelSource>;

absl::Status PlanServing(const CheckOptions& options,
                         const absl::StatusOr<Source>& source,
                         v1::ModelCheck& check) {
  RETURN_IF_ERROR(source.status());
  if ((*source)->text_plan() != nullptr) {
    *check.mutable_serving()->mutable_plan() = *(*source)->text_plan();
    check.mutable_serving()->set_max_batch_size(
        ToOptions(options.serving).max_batch_size);
    return absl::OkStatus();
  }
  CpuBackend backend(options.threads);
  ASSIGN_OR_RETURN(
      const InferencePrograms programs,
      CompileInference(**source, ToOptions(options.serving), &backend));
  v1::ServingCheck& serving = *check.mutable_serving();
  DescribeModel(programs, (*source)->served(), *serving.mutable_plan());
  check.mutable_warnings()->Swap(serving.mutable_plan()->mutable_warnings());
  serving.set_max_batch_size(programs.max_batch_size);
  return absl::OkStatus();
}

absl::Status PlanStep(const CheckOptions& options,
                      const absl::StatusOr<Source>& source,
                      v1::ModelCheck& check) {
  RETURN_IF_ERROR(source.status());
  v1::TrainingCheck& training = *check.mutable_training();
  const int64_t batch = options.training_batch;
  const v1::Precision precision = options.serving.precision;
  ASSIGN_OR_RETURN(const ModelGraph forward,
                   (*source)->Build({.batch = batch, .wide_ports = true}));
  RETURN_IF_ERROR(FeedModel(forward.inputs, {.assumed = true}).status());
  ASSIGN_OR_RETURN(
      ModelGraph step,
      BuildTrainingGraph(**source, {},
                         DefaultTraining(forward, batch, precision)));
  for (const std::string& warning : step.warnings) {
    AddWarning(warning, *check.mutable_warnings());
  }
  RETURN_IF_ERROR(
      RunPasses(step.graph, {.compute = ComputeType(precision)}, nullptr));
  CpuBackend backend(options.threads);
  ASSIGN_OR_RETURN(const Program program,
                   Program::Compile(std::move(step.graph), &backend));
  ASSIGN_OR_RETURN(const WeightLayout layout,
                   WeightLayout::Create({&program.graph()}));
  *training.mutable_bytes() =
      ToProto(ReportBytes(layout.bytes(), {program.bytes()}));
  training.set_flops(GraphFlops(program.graph()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ModelCheck> CheckModel(const CheckOptions& options) {
  v1::ModelCheck check;
  absl::StatusOr<Source> source;
  if (options.spec.has_onnx()) {
    const v1::OnnxModel& onnx = options.spec.onnx();
    ASSIGN_OR_RETURN(auto file, onnx_import::OnnxFile::Open(onnx.file()));
    *check.mutable_onnx() = onnx_import::DescribeFile(*file);
    source = onnx_import::MakeOnnxSource(onnx, std::move(file));
    if (source.ok()) {
      const absl::Status named = (*source)->CheckNames();
      if (!named.ok()) source = named;
    }
  } else {
    source = ModelSource::Open(options.spec, "");
  }
  const absl::Status served = PlanServing(options, source, check);
  check.mutable_serving()->set_refused(std::string(served.message()));
  check.mutable_training()->set_batch_size(options.training_batch);
  const absl::Status trained = PlanStep(options, source, check);
  check.mutable_training()->set_refused(std::string(trained.message()));
  return check;
}

}  // namespace gpupool::engine
