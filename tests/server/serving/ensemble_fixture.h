// Ensembles for tests, and steps whose answers the test gives by hand.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/serving/call_executor.h"
#include "server/serving/ensemble_binding.h"
#include "server/serving/ensemble_graph.h"
#include "server/serving/ensemble_spec.h"
#include "tests/server/serving/served_model.h"

namespace gpupool::server {

// Executes the calls of a step when the test says so: each output is twice the
// sum of all inputs. One thread at a time.
class FakeStep : public CallExecutor {
 public:
  explicit FakeStep(size_t outputs) : outputs_(outputs) {}

  void Enqueue(InferenceCall* call) override {
    waiting.push_back(call);
    if (at_once) Answer();
  }
  void Cancel(InferenceCall* call) override {
    const auto it = std::find(waiting.begin(), waiting.end(), call);
    if (it == waiting.end()) return;
    waiting.erase(it);
    call->OnAnswer(absl::CancelledError("cancelled"), {});
  }
  void Drain() override {}
  void Close(const absl::Status&) override {}
  void CountRefused(absl::StatusCode) override {}
  void RecordCache(const CacheSample&) override {}
  const VersionStatistics& statistics() const override { return statistics_; }

  // Takes the oldest call out of the queue, so that Cancel is too late.
  void Launch() {
    launched.push_back(waiting.front());
    waiting.erase(waiting.begin());
  }
  // Answers the oldest call.
  void Answer(const absl::Status& status = absl::OkStatus()) {
    if (launched.empty()) Launch();
    InferenceCall* const call = launched.front();
    launched.erase(launched.begin());
    if (!status.ok()) return call->OnAnswer(status, {});
    std::vector<float> sum(call->inputs.bytes[0].size() / sizeof(float), 0);
    for (const auto& bytes : call->inputs.bytes) {
      std::vector<float> input(sum.size());
      std::memcpy(input.data(), bytes.data(), bytes.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += 2 * input[i];
    }
    const auto bytes =
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(sum.data()),
                            sum.size() * sizeof(float));
    call->output_shapes.assign(outputs_, {2});
    const std::vector<absl::Span<const std::byte>> all(outputs_, bytes);
    call->OnAnswer(absl::OkStatus(), all);
  }

  bool at_once = false;  // answers in Enqueue
  std::vector<InferenceCall*> waiting;
  std::vector<InferenceCall*> launched;

 private:
  const size_t outputs_;
  VersionStatistics statistics_{32};
};

// Returns a version with FP32 inputs and outputs of these names, [-1,2] each.
inline v1::ModelVersion StepVersion(const std::string& model,
                                    const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& outputs) {
  v1::ModelVersion version = MakeModelVersion(model, 1, 1);
  version.mutable_plan()->clear_inputs();
  version.mutable_plan()->clear_outputs();
  for (const std::string& name : inputs) {
    *version.mutable_plan()->add_inputs() = FloatSpec(name, 2);
  }
  for (const std::string& name : outputs) {
    *version.mutable_plan()->add_outputs() = FloatSpec(name, 2);
  }
  return version;
}

inline EnsembleTensor Floats(const std::string& name) {
  return {.name = name, .data_type = v1::FLOAT32, .dims = {2}};
}

inline EnsembleStep StepOf(const std::string& model,
                           std::map<std::string, std::string> inputs,
                           std::map<std::string, std::string> outputs) {
  return {.model = model,
          .version = 0,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

// x -> pre -> net -> y
inline EnsembleSpec ChainSpec() {
  return {.model = "chain",
          .version = 1,
          .max_batch_size = 4,
          .max_in_flight = 8,
          .inputs = {Floats("x")},
          .outputs = {Floats("y")},
          .steps = {StepOf("pre", {{"in", "x"}}, {{"out", "m"}}),
                    StepOf("net", {{"in", "m"}}, {{"out", "y"}})}};
}

// x -> top -> left and right -> join -> y
inline EnsembleSpec DiamondSpec() {
  EnsembleSpec spec = ChainSpec();
  spec.model = "diamond";
  spec.steps = {
      StepOf("top", {{"in", "x"}}, {{"out", "m"}}),
      StepOf("left", {{"in", "m"}}, {{"out", "l"}}),
      StepOf("right", {{"in", "m"}}, {{"out", "r"}}),
      StepOf("join", {{"a", "l"}, {"b", "r"}}, {{"out", "y"}}),
  };
  return spec;
}

// Versions with fake steps, by the name of the model. "join" has inputs a and
// b, the others have one, "in".
class FakeSteps {
 public:
  FakeStep& operator[](const std::string& model) { return *of(model).executor; }
  const VersionHandle& version(const std::string& model) {
    return of(model).version;
  }
  // Lets go of the version.
  void Forget(const std::string& model) { of(model).version = nullptr; }

  std::shared_ptr<const EnsembleBinding> Bind(const EnsembleSpec& spec) {
    auto graph = MakeEnsembleGraph(spec);
    EXPECT_TRUE(graph.ok()) << graph.status();
    std::vector<VersionHandle> versions;
    for (const EnsembleStep& step : spec.steps) {
      versions.push_back(version(step.model));
    }
    auto binding = BindEnsemble(
        spec, std::make_shared<const EnsembleGraph>(*std::move(graph)),
        versions);
    EXPECT_TRUE(binding.ok()) << binding.status();
    return std::make_shared<const EnsembleBinding>(*std::move(binding));
  }

 private:
  struct Step {
    std::shared_ptr<FakeStep> executor;
    VersionHandle version;
  };

  Step& of(const std::string& model) {
    Step& step = steps_[model];
    if (step.executor == nullptr) {
      const std::vector<std::string> inputs =
          model == "join" ? std::vector<std::string>{"a", "b"}
                          : std::vector<std::string>{"in"};
      step.executor = std::make_shared<FakeStep>(1);
      step.version = std::make_shared<ServedVersion>(
          *MakeVersionFacts(StepVersion(model, inputs, {"out"})), step.executor,
          nullptr);
    }
    return step;
  }

  std::map<std::string, Step> steps_;
};

}  // namespace gpupool::server
