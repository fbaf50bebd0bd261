#include "tests/engine/collective/regression_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/autodiff/gradient.h"
#include "engine/autodiff/step_tail.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/passes/pipeline.h"
#include "engine/runtime/weight_view.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kHidden = 16;
constexpr double kLearningRate = 0.05;
// Several buckets, although the model is small.
constexpr BucketSizes kBucketSizes{.first_bytes = 64, .other_bytes = 1024};

struct GradientProgram {
  Graph graph;
  std::vector<std::string> parameters;
};

// tanh(tanh(x w1) w2) w3 against the target; outputs the loss and
// "<parameter>/gradient".
absl::StatusOr<GradientProgram> BuildGradientGraph(int64_t batch) {
  GradientProgram program;
  GraphBuilder builder(&program.graph);
  ASSIGN_OR_RETURN(
      ValueId x,
      builder.Input("x", {DType::kFloat32, {batch, Regression::kFeatures}}));
  ASSIGN_OR_RETURN(const ValueId target,
                   builder.Input("target", {DType::kFloat32, {batch, 1}}));
  const Shape shapes[] = {
      {Regression::kFeatures, kHidden}, {kHidden, kHidden}, {kHidden, 1}};
  std::vector<ValueId> parameters;
  for (const Shape& shape : shapes) {
    program.parameters.push_back("w" + std::to_string(parameters.size() + 1));
    ASSIGN_OR_RETURN(
        const ValueId w,
        builder.Persistent(program.parameters.back(), {DType::kFloat32, shape},
                           MemoryClass::kWeight));
    if (!parameters.empty()) {
      ASSIGN_OR_RETURN(x, builder.EmitOne(Op::kTanh, {x}));
    }
    ASSIGN_OR_RETURN(x,
                     builder.EmitOne(Op::kMatMul, {x, w}, MatMulAttributes{}));
    parameters.push_back(w);
  }
  ASSIGN_OR_RETURN(
      const ValueId loss,
      builder.EmitOne(Op::kMeanSquaredError, {x, target}, LossAttributes{}));
  program.graph.AddOutput("loss", loss);
  ASSIGN_OR_RETURN(const std::vector<ValueId> gradients,
                   AddGradients(program.graph, loss, parameters));
  for (size_t i = 0; i < gradients.size(); ++i) {
    program.graph.AddOutput(program.parameters[i] + "/gradient", gradients[i]);
  }
  RETURN_IF_ERROR(RunPasses(program.graph, {}, nullptr));
  return program;
}

// SGD on gradients that are inputs, "<parameter>/gradient".
absl::StatusOr<Graph> BuildOptimizerGraph(const Graph& gradient_graph) {
  Graph graph;
  GraphBuilder builder(&graph);
  std::vector<ValueId> parameters, gradients;
  for (const Value& value : gradient_graph.values()) {
    if (value.kind != ValueKind::kPersistent) continue;
    ASSIGN_OR_RETURN(
        const ValueId parameter,
        builder.Persistent(value.name, value.type(), value.memory_class));
    ASSIGN_OR_RETURN(const ValueId gradient,
                     builder.Input(value.name + "/gradient", value.type()));
    parameters.push_back(parameter);
    gradients.push_back(gradient);
  }
  RETURN_IF_ERROR(AddStepTail(graph, parameters, gradients,
                              {.optimizer = SgdAttributes{.momentum = 0.9}})
                      .status());
  RETURN_IF_ERROR(RunPasses(graph, {}, nullptr));
  return graph;
}

absl::Span<const float> Floats(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()),
          bytes.size() / sizeof(float)};
}

template <typename T>
void SetNumber(Executor& executor, absl::string_view name, T number) {
  std::memcpy(executor.input(name).data(), &number, sizeof(number));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Regression>> Regression::Create(
    uint64_t seed, uint32_t global_batch, Collective* collective) {
  const auto ranks = static_cast<uint32_t>(collective->size());
  std::vector<uint32_t> rows(kRows);
  for (uint32_t i = 0; i < kRows; ++i) rows[i] = i;
  ASSIGN_OR_RETURN(DistributedSampler sampler,
                   DistributedSampler::Create(
                       {.seed = seed,
                        .batch_size = global_batch / ranks,
                        .rank = static_cast<uint32_t>(collective->rank()),
                        .ranks = ranks},
                       std::move(rows)));
  auto regression =
      std::unique_ptr<Regression>(new Regression(std::move(sampler)));
  RETURN_IF_ERROR(regression->Build(seed, global_batch / ranks, collective));
  return regression;
}

absl::Status Regression::Build(uint64_t seed, uint32_t batch,
                               Collective* collective) {
  collective_ = collective;
  Philox random(seed);
  for (uint32_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int64_t f = 0; f < kFeatures; ++f) {
      features_.push_back(static_cast<float>(random.NextNormal()));
      sum += features_.back() * static_cast<double>(f + 1);
    }
    targets_.push_back(static_cast<float>(std::sin(0.2 * sum)));
  }
  ASSIGN_OR_RETURN(GradientProgram built, BuildGradientGraph(batch));
  parameters_ = std::move(built.parameters);
  ASSIGN_OR_RETURN(Graph tail, BuildOptimizerGraph(built.graph));
  ASSIGN_OR_RETURN(WeightLayout layout,
                   WeightLayout::Create({&built.graph, &tail}));
  ASSIGN_OR_RETURN(WeightStore store,
                   WeightStore::Create(std::move(layout), "job", &allocator_));
  weights_ = std::make_unique<WeightStore>(std::move(store));
  ASSIGN_OR_RETURN(Program gradient,
                   Program::Compile(std::move(built.graph), &backend_));
  ASSIGN_OR_RETURN(Program optimizer,
                   Program::Compile(std::move(tail), &backend_));
  ASSIGN_OR_RETURN(
      arena_, allocator_.Allocate(
                  std::max(gradient.bytes().arena, optimizer.bytes().arena),
                  {"job", "arena"}));
  const absl::Span<std::byte> arena(arena_.data(), arena_.bytes());
  ASSIGN_OR_RETURN(gradient_, Executor::Create(std::move(gradient), *weights_,
                                               arena, "job", &allocator_));
  ASSIGN_OR_RETURN(optimizer_, Executor::Create(std::move(optimizer), *weights_,
                                                arena, "job", &allocator_));
  RETURN_IF_ERROR(FillWeights(seed));
  std::vector<uint64_t> elements;
  for (const std::string& name : parameters_) {
    elements.push_back(static_cast<uint64_t>(layout_of(name).shape.elements()));
  }
  ASSIGN_OR_RETURN(
      GradientBuckets buckets,
      GradientBuckets::Plan(elements,
                            ReverseOrder(static_cast<int>(elements.size())),
                            kBucketSizes));
  buckets_ = buckets.buckets().size();
  reducer_ = std::make_unique<GradientReducer>(std::move(buckets), collective);
  return absl::OkStatus();
}

const WeightEntry& Regression::layout_of(const std::string& name) const {
  return *weights_->layout().Find(name);
}

// Rank 0 has the weights; the others get them, as after a restart.
absl::Status Regression::FillWeights(uint64_t seed) {
  ASSIGN_OR_RETURN(const WeightView view, WeightView::OfNew(*weights_));
  for (const std::string& name : parameters_) {
    Philox random(
        seed, PhiloxStreamId(PhiloxStream::kWeights, PhiloxNameIndex(name)));
    const absl::Span<std::byte> bytes = view.Find(name);
    auto* numbers = reinterpret_cast<float*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      numbers[i] = collective_->rank() == 0 ? random.NextFloat() - 0.5f : -1e9f;
    }
    RETURN_IF_ERROR(collective_->Broadcast(bytes, 0));
  }
  RETURN_IF_ERROR(view.Commit());
  RETURN_IF_ERROR(gradient_->Load());
  return optimizer_->Load();
}

void Regression::GiveRows(absl::Span<const uint32_t> rows) {
  auto* x = reinterpret_cast<float*>(gradient_->input("x").data());
  auto* target = reinterpret_cast<float*>(gradient_->input("target").data());
  for (const uint32_t row : rows) {
    x = std::copy_n(features_.data() + row * kFeatures, kFeatures, x);
    *target++ = targets_[row];
  }
}

absl::StatusOr<double> Regression::Step() {
  GiveRows(sampler_.Next());
  RETURN_IF_ERROR(gradient_->Run());
  for (size_t i = parameters_.size(); i-- > 0;) {
    RETURN_IF_ERROR(reducer_->Give(
        static_cast<int>(i),
        Floats(gradient_->output(parameters_[i] + "/gradient"))));
  }
  float loss = Floats(gradient_->output("loss"))[0];
  RETURN_IF_ERROR(collective_->AllReduce(absl::MakeSpan(&loss, 1)));
  RETURN_IF_ERROR(reducer_->Finish());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto gradient = reducer_->gradient(static_cast<int>(i));
    const auto input = optimizer_->input(parameters_[i] + "/gradient");
    std::memcpy(input.data(), gradient.data(), input.size());
  }
  SetNumber(*optimizer_, "learning_rate", kLearningRate);
  SetNumber(*optimizer_, "step", ++steps_);
  RETURN_IF_ERROR(optimizer_->Run());
  // To the gradient program weights are stable: it keeps packed copies.
  RETURN_IF_ERROR(gradient_->Load());
  return loss / static_cast<double>(collective_->size());
}

}  // namespace gpupool::engine
