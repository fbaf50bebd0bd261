#include "tests/engine/testing/model_program.h"

#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/model/model_programs.h"
#include "engine/model/precision.h"
#include "engine/train/initial_weights.h"

namespace gpupool::engine::testing {
namespace {

constexpr char kHolder[] = "program";

// Returns numbers without a pattern, so that no row of an embedding is used
// more often than others.
uint64_t Scramble(uint64_t number) {
  number = (number ^ number >> 31) * 0x9e3779b97f4a7c15;
  return number ^ number >> 29;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelProgram>> ModelProgram::ForInference(
    Source source, int64_t batch, const ProgramDevice& device,
    v1::Precision precision) {
  ASSIGN_OR_RETURN(
      ModelGraph model,
      BuildInferenceGraph(*source, /*input_scaling=*/false, batch));
  std::unique_ptr<ModelProgram> program(
      new ModelProgram(std::move(source), std::move(model), device));
  RETURN_IF_ERROR(program->Compile(
      {.compute = ComputeType(precision),
       .integer_products = device.backend->PrefersIntegerProducts()},
      precision));
  return program;
}

absl::StatusOr<std::unique_ptr<ModelProgram>> ModelProgram::ForTraining(
    Source source, const v1::TrainingSpec& training,
    const ProgramDevice& device) {
  ASSIGN_OR_RETURN(ModelGraph model,
                   BuildTrainingGraph(*source, v1::Scaling(), training));
  std::unique_ptr<ModelProgram> program(
      new ModelProgram(std::move(source), std::move(model), device));
  RETURN_IF_ERROR(program->Compile({}, training.precision()));
  return program;
}

absl::Status ModelProgram::Compile(const PassOptions& options,
                                   v1::Precision precision) {
  if (AllowsTensorFloat32(precision)) device_.kernels.tensor_float32 = true;
  Graph graph = model_.graph;
  RETURN_IF_ERROR(RunPasses(graph, options, &passes_));
  ASSIGN_OR_RETURN(program_, Program::Compile(std::move(graph), device_.backend,
                                              device_.kernels));
  ASSIGN_OR_RETURN(layout_, WeightLayout::Create({&program_->graph()}));
  return absl::OkStatus();
}

absl::Status ModelProgram::Load(uint64_t seed,
                                absl::Span<const std::string> brought) {
  ASSIGN_OR_RETURN(weights_,
                   WeightStore::Create(*layout_, kHolder, device_.allocator,
                                       device_.backend->transfer()));
  std::vector<PersistentSpec> used;
  for (const PersistentSpec& spec : model_.persistents) {
    if (layout_->Find(spec.name) != nullptr) used.push_back(spec);
  }
  RETURN_IF_ERROR(SetInitialWeights(*source_, used, seed, *weights_));
  ASSIGN_OR_RETURN(arena_, device_.allocator->Allocate(program_->bytes().arena,
                                                       {kHolder, "arena"}));
  ASSIGN_OR_RETURN(executor_,
                   Executor::Create(*std::move(program_),
                                    {.weights = *weights_,
                                     .arena = {arena_.data(), arena_.bytes()},
                                     .holder = kHolder,
                                     .allocator = device_.allocator},
                                    brought));
  program_.reset();
  return executor_->Load();
}

PlannedBytes ModelProgram::bytes() const {
  return ReportBytes(layout_->bytes(), {&program().bytes(), 1});
}

void ModelProgram::FillInputs(int64_t step, int64_t classes) {
  for (const Value& value : program().graph().values()) {
    if (value.kind != ValueKind::kInput) continue;
    const absl::Span<std::byte> bytes = executor_->input(value.name);
    if (!bytes.empty()) FillInput(value, step, classes, bytes.data());
  }
}

void ModelProgram::FillInput(const Value& value, int64_t step, int64_t classes,
                             std::byte* data) {
  for (int64_t i = 0; i < value.shape.elements(); ++i) {
    if (value.dtype == DType::kFloat32) {
      reinterpret_cast<float*>(data)[i] =
          static_cast<float>((i * 37 + i / 7 + step * 5) % 17) / 17.0F;
    } else if (value.dtype == DType::kFloat64) {
      reinterpret_cast<double*>(data)[i] = 0.01;
    } else if (value.shape.rank() == 0) {
      reinterpret_cast<int64_t*>(data)[i] = value.name == "step" ? step : 1;
    } else {
      reinterpret_cast<int64_t*>(data)[i] =
          static_cast<int64_t>(Scramble(static_cast<uint64_t>(i + 1)) %
                               static_cast<uint64_t>(classes));
    }
  }
}

absl::Span<const float> ModelProgram::Output(absl::string_view name) const {
  const absl::Span<const std::byte> bytes = executor_->output(name);
  return {reinterpret_cast<const float*>(bytes.data()),
          bytes.size() / sizeof(float)};
}

std::string ModelProgram::Outputs() const {
  std::string all;
  for (const GraphOutput& output : program().graph().outputs()) {
    const absl::Span<const std::byte> bytes = executor_->output(output.name);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

}  // namespace gpupool::engine::testing
