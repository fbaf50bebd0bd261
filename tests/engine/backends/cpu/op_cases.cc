#include "tests/engine/backends/cpu/op_cases.h"

#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/graph/layout_rule.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {

int64_t OpCase::Pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

reference::Numbers OpCase::Uniform(const Shape& shape, double low,
                                   double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  reference::Numbers numbers(static_cast<size_t>(shape.elements()));
  for (double& x : numbers) x = static_cast<float>(uniform(random_));
  return numbers;
}

ValueId OpCase::Floats(const Shape& shape, double low, double high) {
  const std::string name = absl::StrCat("input", names_++);
  inputs[name] = Uniform(shape, low, high);
  return *builder_.Input(name, {DType::kFloat32, shape});
}

ValueId OpCase::Weights(const Shape& shape, double low, double high) {
  const std::string name = absl::StrCat("weight", names_++);
  persistents[name] = Uniform(shape, low, high);
  return *builder_.Persistent(name, {DType::kFloat32, shape},
                              MemoryClass::kWeight);
}

ValueId OpCase::CoarseFloats(const Shape& shape) {
  const std::string name = absl::StrCat("input", names_++);
  reference::Numbers& numbers = inputs[name];
  numbers.resize(static_cast<size_t>(shape.elements()));
  for (double& x : numbers) x = static_cast<double>(Pick(-3, 3)) / 2;
  return *builder_.Input(name, {DType::kFloat32, shape});
}

ValueId OpCase::Integers(const Shape& shape, DType dtype, int64_t low,
                         int64_t high) {
  const std::string name = absl::StrCat("input", names_++);
  reference::Numbers& numbers = inputs[name];
  numbers.resize(static_cast<size_t>(shape.elements()));
  for (double& x : numbers) x = static_cast<double>(Pick(low, high));
  return *builder_.Input(name, {dtype, shape});
}

ValueId OpCase::Scalar(DType dtype, double number) {
  const std::string name = absl::StrCat("input", names_++);
  inputs[name] = {number};
  return *builder_.Input(name, {dtype, {}});
}

void OpCase::Emit(Op op, std::vector<ValueId> inputs, Attributes attributes) {
  EmitUpdate(op, std::move(inputs), std::move(attributes), {});
}

void OpCase::EmitUpdate(Op op, std::vector<ValueId> inputs,
                        Attributes attributes, std::vector<ValueId> updated) {
  const auto outputs = builder_.Emit(op, inputs, std::move(attributes));
  if (!outputs.ok()) {
    std::fprintf(stderr, "%s\n", outputs.status().ToString().c_str());
  }
  GPUPOOL_CHECK(outputs.ok());
  for (size_t i = 0; i < updated.size(); ++i) {
    GPUPOOL_CHECK(builder_.Update((*outputs)[i], updated[i]).ok());
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    graph_.AddOutput(absl::StrCat("output", i), (*outputs)[i]);
  }
}

bool UndefineClip(OpCase& at) {
  const Node& node = at.graph().nodes()[0];
  const bool clips = std::visit(
      [](const auto& attributes) {
        if constexpr (requires { attributes.clip; }) return attributes.clip;
        return false;
      },
      node.attributes);
  if (!clips) return false;
  at.inputs.at(at.graph().value(node.inputs.back()).name) = {std::nan("")};
  return true;
}

void OpCase::UseChannelsLast() {
  std::vector<bool> weight(graph_.values().size(), false);
  for (const Node& node : graph_.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!IsWeightInput(node.op, i)) continue;
      weight[static_cast<size_t>(node.inputs[i].index)] = true;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!IsWeightOutput(node.op, i)) continue;
      weight[static_cast<size_t>(node.outputs[i].index)] = true;
    }
  }
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    Value& value = graph_.mutable_value({static_cast<int32_t>(i)});
    if (value.shape.rank() == 4 && !weight[i]) {
      value.layout = Layout::kChannelsLast;
    }
  }
}

namespace {

// Rounds the numbers that the case gives the value.
void Change(OpCase& at, ValueId id, DType dtype) {
  Value& value = at.graph().mutable_value(id);
  if (value.dtype != DType::kFloat32) return;
  const bool input = value.kind == ValueKind::kInput;
  if (!input && value.kind != ValueKind::kPersistent) return;
  value.dtype = dtype;
  auto& numbers = input ? at.inputs : at.persistents;
  for (double& x : numbers.at(value.name)) x = RoundToDType(dtype, x);
}

// Gives the nodes' results the types that follow from their operands'.
bool InferAgain(Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const auto types =
        InferTypes(node.op, node.attributes, graph.InputTypes(node));
    if (!types.ok()) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph.mutable_value(node.outputs[i]).dtype = (*types)[i].dtype;
    }
  }
  return true;
}

}  // namespace

bool ChangeFloats(OpCase& at, DType dtype) {
  // The logarithm of the sums stays float32 even if operands have 16 bits.
  const Node node = at.graph().nodes()[0];
  const bool keeps = SizeOf(dtype) == 2 && node.op == Op::kAttentionGrad;
  for (size_t i = 0; i < at.graph().values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    if (!keeps || id != node.inputs[5]) Change(at, id, dtype);
  }
  return InferAgain(at.graph());
}

bool ChangeNormalised(OpCase& at, DType dtype) {
  const Node node = at.graph().nodes()[0];
  const bool gradient =
      node.op == Op::kBatchNormTrainingGrad || node.op == Op::kLayerNormGrad;
  if (!gradient && node.op != Op::kBatchNormTraining &&
      node.op != Op::kBatchNormInference && node.op != Op::kLayerNorm) {
    return false;
  }
  Change(at, node.inputs[0], dtype);
  if (gradient) Change(at, node.inputs[1], dtype);
  return InferAgain(at.graph());
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 1.2e-2;
    case DType::kFloat16:
      return 1.5e-3;
    case DType::kFloat64:
      return 1e-12;
    default:
      return 2e-7;
  }
}

namespace {

Shape RandomShape(OpCase& at) {
  switch (at.Pick(1, 4)) {
    case 1:
      return {at.Pick(1, 100)};
    case 2:
      return {at.Pick(1, 40), at.Pick(1, 70)};
    case 3:
      return {at.Pick(1, 9), at.Pick(1, 9), at.Pick(1, 30)};
    default:
      return {at.Pick(1, 5), at.Pick(1, 20), at.Pick(1, 9), at.Pick(1, 9)};
  }
}

// Returns a shape that is sometimes large enough to be split over threads.
Shape LargeShape(OpCase& at) { return {at.Pick(1, 90), at.Pick(1, 3000)}; }

Activation RandomActivation(OpCase& at) {
  return static_cast<Activation>(at.Pick(0, 5));
}

OpCaseMaker Unary(std::string name, Op op, Attributes attributes = {}) {
  return {std::move(name), [=](OpCase& at) {
            const Shape shape = at.Coin() ? RandomShape(at) : LargeShape(at);
            at.Emit(op, {at.Floats(shape, -6, 6)}, attributes);
          }};
}

struct Interval {
  double low = 0;
  double high = 0;
};

// Makes cases of gradients that take dy and x, or dy and y, with y in the
// interval.
OpCaseMaker Gradient(std::string name, Op op, Interval y,
                     Attributes attributes = {}) {
  return {std::move(name), [=](OpCase& at) {
            const Shape shape = at.Coin() ? RandomShape(at) : LargeShape(at);
            at.Emit(op, {at.Floats(shape), at.Floats(shape, y.low, y.high)},
                    attributes);
          }};
}

void BuildMatMul(OpCase& at) {
  const int64_t m = at.Pick(1, 70), n = at.Pick(1, 70), k = at.Pick(1, 90);
  MatMulAttributes attributes{
      at.Coin(), at.Coin(), {at.Coin(), at.Coin(), RandomActivation(at)}};
  const Shape a = attributes.transpose_a ? Shape{k, m} : Shape{m, k};
  const Shape b = attributes.transpose_b ? Shape{n, k} : Shape{k, n};
  std::vector<ValueId> inputs = {at.Floats(a),
                                 at.Coin() ? at.Weights(b) : at.Floats(b)};
  if (attributes.epilogue.bias) inputs.push_back(at.Weights({n}));
  if (attributes.epilogue.residual) inputs.push_back(at.Floats({m, n}));
  at.Emit(Op::kMatMul, inputs, attributes);
}

void BuildLayoutConvert(OpCase& at) {
  const Shape shape{at.Pick(1, 5), at.Pick(1, 20), at.Pick(1, 9),
                    at.Pick(1, 9)};
  const bool to_last = at.Coin();
  const ValueId x = at.Floats(shape);
  at.Emit(
      Op::kLayoutConvert, {x},
      LayoutAttributes{to_last ? Layout::kChannelsLast : Layout::kRowMajor});
  at.graph().mutable_value(x).layout =
      to_last ? Layout::kRowMajor : Layout::kChannelsLast;
  at.graph().mutable_value(at.graph().outputs()[0].value).layout =
      to_last ? Layout::kChannelsLast : Layout::kRowMajor;
}

void BuildScaleShift(OpCase& at) {
  const int64_t rows = at.Pick(1, 9);
  const Shape features =
      at.Coin() ? Shape{at.Pick(1, 70)} : Shape{1, at.Pick(1, 9), 8};
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), features.dims().begin(), features.dims().end());
  at.Emit(Op::kScaleShift, {at.Floats(*Shape::Create(dims)),
                            at.Weights(features), at.Weights(features)});
}

void BuildReshape(OpCase& at) {
  const Shape shape = RandomShape(at);
  at.Emit(Op::kReshape, {at.Floats(shape)},
          ShapeAttributes{Shape{shape.elements()}});
}

void BuildDropout(OpCase& at) {
  const Shape shape = at.Coin() ? RandomShape(at) : LargeShape(at);
  const DropoutAttributes attributes{
      static_cast<double>(at.Pick(0, 99)) / 100,
      static_cast<uint64_t>(at.Pick(0, int64_t{1} << 60))};
  at.Emit(
      Op::kDropout,
      {at.Floats(shape), at.Integers({}, DType::kInt64, 0, int64_t{1} << 50),
       at.Integers({}, DType::kInt64, 1, int64_t{1} << 40)},
      attributes);
}

}  // namespace

std::vector<OpCaseMaker> BasicOpCases() {
  const GeluAttributes tanh_form{true};
  return {
      Unary("Relu", Op::kRelu),
      Unary("Gelu", Op::kGelu, GeluAttributes{}),
      Unary("GeluTanh", Op::kGelu, tanh_form),
      Unary("Sigmoid", Op::kSigmoid),
      Unary("Tanh", Op::kTanh),
      Unary("Softmax", Op::kSoftmax),
      Gradient("Add", Op::kAdd, {-2, 2}),
      Gradient("ReluGrad", Op::kReluGrad, {-2, 2}),
      Gradient("GeluGrad", Op::kGeluGrad, {-6, 6}, GeluAttributes{}),
      Gradient("GeluTanhGrad", Op::kGeluGrad, {-6, 6}, tanh_form),
      Gradient("SigmoidGrad", Op::kSigmoidGrad, {0, 1}),
      Gradient("TanhGrad", Op::kTanhGrad, {-1, 1}),
      Gradient("SoftmaxGrad", Op::kSoftmaxGrad, {0, 1}, {}),
      {"MatMul", BuildMatMul, 1e-5},
      {"LayoutConvert", BuildLayoutConvert, 0},
      {"ScaleShift", BuildScaleShift},
      {"Reshape", BuildReshape, 0},
      {"Dropout", BuildDropout},
  };
}

std::vector<OpCaseMaker> AllOpCases() {
  std::vector<OpCaseMaker> cases;
  for (auto* list : {&ElementwiseOpCases, &CoreOpCases, &BasicOpCases,
                     &ImageOpCases, &CodesOpCases, &TrainingOpCases}) {
    for (OpCaseMaker& maker : (*list)()) cases.push_back(std::move(maker));
  }
  return cases;
}

OpCase MakeOpCase(const OpCaseMaker& maker, uint32_t seed) {
  OpCase at(seed);
  maker.build(at);
  const bool images =
      LayoutRuleOf(at.graph(), at.graph().nodes()[0]) == LayoutRule::kSame;
  if (images && at.Coin()) at.UseChannelsLast();
  return at;
}

}  // namespace gpupool::engine
