#include "tests/conformance/onnx/operator_survey.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/autodiff/gradient.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/passes/pipeline.h"
#include "tests/conformance/onnx/case_runner.h"
#include "tests/conformance/onnx/cases.h"
#include "tests/conformance/onnx/expected_unsupported.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

struct CaseFacts {
  std::set<OperatorKey> operators;
  bool passes = false;
  bool float32 = false;
  int ways = 0;
  int ways_with_gradient = 0;
  std::set<std::string> refusals;
  bool fast = false;
  bool at_import = false;
  std::set<std::string> types;
};

std::set<OperatorKey> KeysOf(const OnnxFile& file) {
  std::set<OperatorKey> keys;
  for (const auto& node : file.model().graph().node()) {
    keys.emplace(std::string(NormalDomain(node.domain())), node.op_type());
  }
  return keys;
}

// Returns the values that depend on `input` through floating values.
std::vector<bool> InfluencedBy(const Graph& graph, ValueId input) {
  std::vector<bool> influenced(graph.values().size(), false);
  influenced[static_cast<size_t>(input.index)] = true;
  for (const Node& node : graph.nodes()) {
    const bool any = std::any_of(
        node.inputs.begin(), node.inputs.end(),
        [&](ValueId id) { return influenced[static_cast<size_t>(id.index)]; });
    if (!any) continue;
    for (ValueId id : node.outputs) {
      influenced[static_cast<size_t>(id.index)] =
          IsFloating(graph.value(id).dtype);
    }
  }
  return influenced;
}

// Computes the gradient of the sum of `output`'s elements.
absl::Status TryGradient(Graph graph, ValueId output, ValueId input) {
  GraphBuilder builder(&graph);
  ReduceAttributes sum;
  for (int axis = 0; axis < graph.value(output).shape.rank(); ++axis) {
    sum.axes.push_back(axis);
  }
  if (!sum.axes.empty()) {
    ASSIGN_OR_RETURN(output, builder.EmitOne(Op::kReduce, {output}, sum));
  }
  return AddGradients(graph, output, {input}).status();
}

// Returns the error without the name that a layer has in its case.
std::string Reason(const absl::Status& status) {
  std::string text(status.message());
  const size_t start = text.find(" of layer '");
  if (start == std::string::npos) return text;
  const size_t end = text.find('\'', text.find('\'', start) + 1);
  return end == std::string::npos ? text : text.erase(start, end + 1 - start);
}

void CountWays(const ModelGraph& model, CaseFacts& facts) {
  for (const ModelPort& input : model.inputs) {
    if (!IsFloating(input.dtype)) continue;
    const std::vector<bool> influenced = InfluencedBy(model.graph, input.value);
    for (const ModelPort& output : model.outputs) {
      if (output.value == input.value ||
          !influenced[static_cast<size_t>(output.value.index)]) {
        continue;
      }
      ++facts.ways;
      const absl::Status status =
          TryGradient(model.graph, output.value, input.value);
      if (status.ok()) {
        ++facts.ways_with_gradient;
      } else {
        facts.refusals.insert(Reason(status));
      }
    }
  }
}

// Counts the nodes that are left to run after the passes.
absl::Status LookAtKernels(const ModelGraph& model, CaseFacts& facts) {
  Graph graph = model.graph;
  for (const ModelPort& port : model.outputs) {
    if (graph.value(port.value).kind != ValueKind::kConstant) {
      graph.AddOutput(port.name, port.value);
    }
  }
  if (graph.outputs().empty()) {
    facts.at_import = true;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(RunPasses(graph, {}, nullptr));
  facts.fast = true;
  for (const Node& node : graph.nodes()) {
    const Value& result = graph.value(node.outputs[0]);
    if (node.stage == Stage::kLoad || result.alias.kind == AliasKind::kView) {
      continue;
    }
    facts.fast = facts.fast && IsFastOnCpu(graph, node);
  }
  return absl::OkStatus();
}

void AddTypes(const OnnxFile& file, CaseFacts& facts) {
  for (const auto& input : file.model().graph().input()) {
    if (!input.type().has_tensor_type()) continue;
    const int type = input.type().tensor_type().elem_type();
    facts.float32 = facts.float32 || type == onnx::TensorProto::FLOAT;
    facts.types.insert(std::string(OnnxTypeName(type)));
  }
}

// Imports the model for training to examine gradients, and for inference to
// examine kernels.
absl::Status LookAtModel(const OnnxFile& file, const DataSet& data,
                         CaseFacts& facts) {
  AddTypes(file, facts);
  ASSIGN_OR_RETURN(const ModelGraph training, ImportBinding(file, data, true));
  CountWays(training, facts);
  ASSIGN_OR_RETURN(const ModelGraph inference,
                   ImportBinding(file, data, false));
  return LookAtKernels(inference, facts);
}

absl::StatusOr<CaseFacts> LookAt(const Case& test) {
  CaseFacts facts;
  ASSIGN_OR_RETURN(const std::shared_ptr<const OnnxFile> file,
                   OnnxFile::Open(test.folder + "/model.onnx"));
  facts.operators = KeysOf(*file);
  facts.passes = WhyUnsupported(test.name).empty();
  if (!facts.passes) return facts;
  ASSIGN_OR_RETURN(const std::vector<DataSet> sets, ReadDataSets(test, *file));
  RETURN_IF_ERROR(LookAtModel(*file, sets[0], facts));
  return facts;
}

struct OwnModel {
  int operator_set;
  const char* graph;
};

// Models for operators without an official case that passes.
constexpr OwnModel kOwnModels[] = {
    {23,
     "(float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, float[1, 2, 3, 4] v) => "
     "(float[1, 2, 3, 4] y) { y = Attention(q, k, v) }"},
    {17, "(float[2, 3] x) => (float[2, 3] y) { y = Bernoulli(x) }"},
    {20, "(float[2, 3] x) => (float[2, 3] y) { y = Gelu(x) }"},
    {17,
     "(float[2, 3, 4, 4] x) => (float[2, 3, 1, 1] y) { y = GlobalLpPool(x) }"},
    {21,
     "(float[2, 4, 3] x, float[4] s, float[4] b) => (float[2, 4, 3] y) "
     "{ y = GroupNormalization<num_groups = 2>(x, s, b) }"},
    {17, "(float[2, 3] x) => (float[2, 3] y) { y = LpNormalization(x) }"},
    {17,
     "(float[2, 3, 4, 4] x) => (float[2, 3, 3, 3] y) "
     "{ y = LpPool<kernel_shape = [2, 2]>(x) }"},
    {18, "(float[2, 3] x) => (float[2, 3] y) { y = Mish(x) }"},
    {17, "(float[2, 3] x) => (int32[2, 1] y) { y = Multinomial(x) }"},
    {23,
     "(float[2, 3] x, float[3] s) => (float[2, 3] y) "
     "{ y = RMSNormalization(x, s) }"},
    {17, "() => (float[2] y) { y = RandomNormal<shape = [2]>() }"},
    {17, "(float[2] x) => (float[2] y) { y = RandomNormalLike(x) }"},
    {17, "() => (float[2] y) { y = RandomUniform<shape = [2]>() }"},
    {17, "(float[2] x) => (float[2] y) { y = RandomUniformLike(x) }"},
    {23,
     "(float[1, 2, 3, 4] x, float[1, 3, 2] c, float[1, 3, 2] s) => "
     "(float[1, 2, 3, 4] y) { y = RotaryEmbedding(x, c, s) }"},
    {24, "(float[2, 3] x) => (float[2, 3] y) { y = Swish(x) }"},
};

absl::StatusOr<CaseFacts> LookAt(const OwnModel& model) {
  const onnx::ModelProto proto = ModelFromText(
      absl::StrCat("<ir_version: 8, opset_import: [\"\" : ", model.operator_set,
                   "]> agraph ", model.graph));
  ASSIGN_OR_RETURN(const std::shared_ptr<const OnnxFile> file,
                   OnnxFile::Parse(proto.SerializeAsString(), {}));
  CaseFacts facts{.operators = KeysOf(*file), .passes = true};
  DataSet data;
  for (const auto& input : proto.graph().input()) {
    std::vector<int64_t> dims;
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      dims.push_back(dim.dim_value());
    }
    HostTensor zeros{DType::kFloat32, *Shape::Create(dims), {}};
    zeros.numbers.resize(static_cast<size_t>(zeros.shape.elements()));
    data.inputs.push_back({.name = input.name(), .tensor = std::move(zeros)});
  }
  RETURN_IF_ERROR(LookAtModel(*file, data, facts));
  return facts;
}

bool Concerns(const CaseFacts& test, const OperatorKey& key, bool alone) {
  return test.operators.contains(key) && (!alone || test.operators.size() == 1);
}

OperatorFacts Sum(const std::vector<CaseFacts>& cases, const OperatorKey& key) {
  const bool alone = std::any_of(
      cases.begin(), cases.end(),
      [&](const CaseFacts& test) { return Concerns(test, key, true); });
  std::vector<const CaseFacts*> passing;
  OperatorFacts sum{.alone = alone};
  bool float32 = false;
  for (const CaseFacts& test : cases) {
    if (!Concerns(test, key, alone)) continue;
    ++sum.cases;
    if (!test.passes) continue;
    ++sum.passing;
    sum.ways += test.ways;
    sum.ways_with_gradient += test.ways_with_gradient;
    sum.refusals.insert(test.refusals.begin(), test.refusals.end());
    sum.types.insert(test.types.begin(), test.types.end());
    float32 = float32 || test.float32;
    passing.push_back(&test);
  }
  for (const CaseFacts* test : passing) {
    if (float32 && !test->float32) continue;
    ++sum.runs;
    sum.runs_fast += test->fast;
    sum.runs_at_import += test->at_import;
  }
  return sum;
}

absl::Status Named(absl::string_view name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::map<OperatorKey, OperatorFacts>> SurveyOperators() {
  std::vector<CaseFacts> cases;
  std::set<OperatorKey> keys;
  for (const Case& test : AllCases()) {
    absl::StatusOr<CaseFacts> facts = LookAt(test);
    if (!facts.ok()) return Named(test.name, facts.status());
    keys.insert(facts->operators.begin(), facts->operators.end());
    cases.push_back(*std::move(facts));
  }
  std::map<OperatorKey, OperatorFacts> all;
  for (const OperatorKey& key : keys) all[key] = Sum(cases, key);
  for (const OwnModel& model : kOwnModels) {
    const absl::StatusOr<CaseFacts> facts = LookAt(model);
    if (!facts.ok()) return Named(model.graph, facts.status());
    const OperatorKey& key = *facts->operators.begin();
    OperatorFacts& official = all[key];
    if (official.passing > 0) continue;
    OperatorFacts own = Sum({*facts}, key);
    own.cases = official.cases;
    own.passing = 0;
    official = std::move(own);
  }
  return all;
}

std::string GradientCell(const OperatorFacts& facts) {
  if (facts.ways == 0) return "-";
  if (facts.ways_with_gradient == facts.ways) return "yes";
  return facts.ways_with_gradient == 0 ? "no" : "part";
}

std::string CpuCell(const OperatorFacts& facts) {
  const int rest = facts.runs - facts.runs_at_import;
  if (facts.runs == 0) return "-";
  if (rest == 0) return "import";
  if (facts.runs_fast == rest) return "fast";
  return facts.runs_fast == 0 ? "reference" : "part";
}

}  // namespace gpupool::engine::onnx_import
