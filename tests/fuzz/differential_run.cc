#include "tests/fuzz/differential_run.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "tests/conformance/onnx/cpu_run.h"
#include "tests/fuzz/dice.h"
#include "tests/fuzz/fuzzed_model.h"
#include "tests/fuzz/noise.h"
#include "tests/fuzz/number_comparison.h"

namespace gpupool::engine::fuzz {
namespace {

using reference::NamedNumbers;

constexpr int kNoisyRuns = 4;

// The numbers that the reference runs a model on.
struct Numbers {
  NamedNumbers inputs, persistents;
};

absl::StatusOr<Numbers> NumbersOf(const FuzzedModel& fuzzed) {
  Numbers numbers;
  for (const Value& value : fuzzed.model.graph.values()) {
    if (value.kind == ValueKind::kInput) {
      numbers.inputs[value.name].assign(
          static_cast<size_t>(value.shape.elements()), 0);
    }
  }
  for (const auto& [name, tensor] : fuzzed.inputs) {
    if (numbers.inputs.contains(name)) numbers.inputs[name] = tensor.numbers;
  }
  for (const PersistentSpec& persistent : fuzzed.model.persistents) {
    const onnx::TensorProto* stored = fuzzed.file->stored(persistent.name);
    if (stored == nullptr) {
      return absl::InternalError(
          absl::StrCat("'", persistent.name, "' is not stored"));
    }
    ASSIGN_OR_RETURN(onnx_import::HostTensor tensor,
                     onnx_import::ReadTensor(*stored, fuzzed.file->external()));
    numbers.persistents[persistent.name] = std::move(tensor.numbers);
  }
  return numbers;
}

absl::StatusOr<NamedNumbers> RunReference(const Graph& graph,
                                          const Numbers& numbers, bool round) {
  NamedNumbers persistents = numbers.persistents;
  return reference::Run(graph, numbers.inputs, persistents,
                        {.round_to_dtype = round});
}

// Returns every value of the graph, by index.
absl::StatusOr<std::vector<std::vector<double>>> AllNumbers(
    const Graph& graph, const Numbers& numbers) {
  Graph open = graph;
  open.mutable_outputs().clear();
  for (const Value& value : graph.values()) {
    open.AddOutput(absl::StrCat(value.id.index), value.id);
  }
  ASSIGN_OR_RETURN(NamedNumbers all, RunReference(open, numbers, true));
  std::vector<std::vector<double>> by_index(graph.values().size());
  for (size_t i = 0; i < by_index.size(); ++i) {
    by_index[i] = std::move(all[absl::StrCat(i)]);
  }
  return by_index;
}

// Runs the reference without noise, without rounding, and with noise.
absl::StatusOr<std::vector<NamedNumbers>> ReferenceRuns(const Graph& graph,
                                                        const Numbers& numbers,
                                                        uint64_t seed) {
  std::vector<NamedNumbers> runs;
  for (const bool round : {true, false}) {
    ASSIGN_OR_RETURN(runs.emplace_back(), RunReference(graph, numbers, round));
  }
  for (int i = 0; i < kNoisyRuns; ++i) {
    const Graph noisy = WithNoise(graph, seed + static_cast<uint64_t>(i));
    ASSIGN_OR_RETURN(runs.emplace_back(), RunReference(noisy, numbers, true));
  }
  return runs;
}

void CompareOutputs(const FuzzedModel& fuzzed,
                    const std::vector<NamedNumbers>& runs,
                    const onnx_import::TensorsByName& got, Verdict& verdict) {
  verdict.outcome = Outcome::kAlike;
  for (const ModelPort& port : fuzzed.model.outputs) {
    std::vector<std::vector<double>> expected;
    for (const NamedNumbers& run : runs) {
      expected.push_back(run.find(port.name)->second);
    }
    const Comparison result = CompareWithRuns(
        port.dtype, expected, got.find(port.name)->second.numbers);
    verdict.compared += result.compared;
    verdict.skipped += result.skipped;
    if (result.difference.empty()) continue;
    verdict.outcome = Outcome::kDifferent;
    absl::StrAppend(&verdict.text, "output '", port.name, "' (",
                    DTypeName(port.dtype), " ", port.shape.ToString(),
                    "): ", result.difference, "\n");
  }
}

// Errors that a client can cause. Others are defects.
bool IsHonest(const absl::Status& status) {
  return status.code() != absl::StatusCode::kInternal &&
         status.code() != absl::StatusCode::kUnknown;
}

Verdict Broken(const char* stage, const absl::Status& status) {
  return {.outcome = Outcome::kBroken,
          .text = absl::StrCat(stage, ": ", status.ToString())};
}

onnx_import::CpuRunOptions CpuOptions(uint64_t seed) {
  Dice dice(seed, 2);
  return {.threads = dice.Chance(25) ? 3 : 1};
}

// Compiles for 16 bits as well. The numbers are not compared.
absl::Status RunIn16Bits(const FuzzedModel& fuzzed, uint64_t seed) {
  Dice dice(seed, 3);
  onnx_import::CpuRunOptions options = CpuOptions(seed);
  options.compute = dice.Chance(50) ? DType::kBFloat16 : DType::kFloat16;
  return RunModelOnCpu(*fuzzed.file, fuzzed.model, fuzzed.inputs, options)
      .status();
}

}  // namespace

Verdict RunOnBoth(const onnx::ModelProto& model, uint64_t seed,
                  const std::function<void(const char*)>& stage) {
  stage("import");
  const absl::StatusOr<FuzzedModel> fuzzed = ImportFuzzed(model, seed);
  if (!fuzzed.ok()) {
    return IsHonest(fuzzed.status())
               ? Verdict{.text = fuzzed.status().ToString()}
               : Broken("import", fuzzed.status());
  }
  const Graph& graph = fuzzed->model.graph;
  const absl::StatusOr<Numbers> numbers = NumbersOf(*fuzzed);
  if (!numbers.ok()) return Broken("weights", numbers.status());
  stage("reference");
  const auto expected = RunReference(graph, *numbers, true);
  stage("compile and run");
  const auto got = RunModelOnCpu(*fuzzed->file, fuzzed->model, fuzzed->inputs,
                                 CpuOptions(seed));
  // The reference also runs nodes that no output needs.
  if (!expected.ok() && got.ok() && IsHonest(expected.status())) {
    return {.outcome = Outcome::kUndefined,
            .text = expected.status().ToString()};
  }
  if (!expected.ok() || !got.ok()) {
    if (!expected.ok() && !got.ok() && IsHonest(got.status())) {
      return {.outcome = Outcome::kRejected, .text = got.status().ToString()};
    }
    return {.outcome = Outcome::kBroken,
            .text = absl::StrCat("only one back end fails: reference ",
                                 expected.status().ToString(), ", CPU ",
                                 got.status().ToString())};
  }
  stage("compile and run in 16 bits");
  const absl::Status half = RunIn16Bits(*fuzzed, seed);
  if (!half.ok()) return Broken("16 bits", half);
  const auto all = AllNumbers(graph, *numbers);
  if (!all.ok()) return Broken("reference", all.status());
  const std::string undefined = WhyUndefined(graph, *all);
  if (!undefined.empty()) {
    return {.outcome = Outcome::kUndefined, .text = undefined};
  }
  stage("noise");
  const auto runs = ReferenceRuns(graph, *numbers, seed);
  // Noise moves indices out of range.
  if (!runs.ok()) {
    return {.outcome = Outcome::kUndefined, .text = runs.status().ToString()};
  }
  Verdict verdict;
  CompareOutputs(*fuzzed, *runs, *got, verdict);
  return verdict;
}

}  // namespace gpupool::engine::fuzz
