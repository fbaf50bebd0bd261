#include "engine/backends/cuda/kernels/single_op.h"

#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/graph/fused.h"

namespace gpupool::engine::cuda {
namespace {

// A kernel that owns the graph that it was made from.
class OwningKernel : public Kernel {
 public:
  OwningKernel(std::unique_ptr<Graph> graph, std::unique_ptr<Kernel> kernel)
      : graph_(std::move(graph)), kernel_(std::move(kernel)) {}

  uint64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  absl::Status Bind(const KernelBuffers& buffers) override {
    return kernel_->Bind(buffers);
  }
  absl::Status Prepare() override { return kernel_->Prepare(); }
  absl::Status Run() override { return kernel_->Run(); }

 private:
  const std::unique_ptr<Graph> graph_;
  const std::unique_ptr<Kernel> kernel_;
};

// Returns a step that applies the activation to `operand`.
FusedStep StepOf(const Epilogue& epilogue, int operand) {
  switch (epilogue.activation) {
    case Activation::kRelu:
      return MakeFusedStep(Op::kRelu, {}, {operand});
    case Activation::kGelu:
      return MakeFusedStep(Op::kGelu, GeluAttributes{}, {operand});
    case Activation::kGeluTanh:
      return MakeFusedStep(Op::kGelu, GeluAttributes{true}, {operand});
    case Activation::kSigmoid:
      return MakeFusedStep(Op::kSigmoid, {}, {operand});
    case Activation::kTanh:
      return MakeFusedStep(Op::kTanh, {}, {operand});
    default:
      return MakeFusedStep(Op::kUnary, epilogue.unary, {operand});
  }
}

// Returns the bias in a shape that broadcasts to y.
Value BiasOf(const Value& y) {
  Value bias;
  bias.dtype = y.dtype;
  bias.layout = y.layout;
  const int rank = y.shape.rank();
  if (rank == 2) {
    bias.shape = Shape{y.shape[1]};
  } else if (rank == 4) {
    bias.shape = Shape{1, y.shape[1], 1, 1};
  } else {
    bias.shape = Shape{1, y.shape[1], 1, 1, 1};
  }
  return bias;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeSingleOp(
    const SingleOp& single, const portable::PortableContext& context) {
  auto graph = std::make_unique<Graph>();
  Node node;
  node.op = single.op;
  node.attributes = single.attributes;
  node.source = "a library's node";
  for (const Value& value : single.inputs) {
    node.inputs.push_back(graph->AddValue(value));
  }
  for (const Value& value : single.outputs) {
    node.outputs.push_back(graph->AddValue(value));
  }
  graph->AddNode(std::move(node));
  // The kernel may refer to the graph, so it owns the graph.
  const CompileRequest request{*graph,
                               graph->nodes()[0],
                               std::vector<bool>(single.inputs.size(), false),
                               {}};
  ASSIGN_OR_RETURN(auto kernel, MakePortableKernel(request, context));
  return std::make_unique<OwningKernel>(std::move(graph), std::move(kernel));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeEpilogue(
    const Epilogue& epilogue, const Value& y,
    const portable::PortableContext& context) {
  SingleOp single;
  single.op = Op::kFused;
  FusedAttributes fused;
  fused.shape = y.shape;
  single.inputs = {y};
  single.outputs = {y};
  if (epilogue.bias) single.inputs.push_back(BiasOf(y));
  if (epilogue.residual) single.inputs.push_back(y);
  const int inputs = static_cast<int>(single.inputs.size());
  // Steps follow the inputs in the numbering of operands.
  int last = 0;
  const auto add = [&](FusedStep step) {
    fused.steps.push_back(std::move(step));
    last = inputs + static_cast<int>(fused.steps.size()) - 1;
  };
  for (int input = 1; input < inputs; ++input) {
    add(MakeFusedStep(Op::kBinary, BinaryAttributes{BinaryFunction::kAdd},
                      {last, input}));
  }
  if (epilogue.activation != Activation::kNone) add(StepOf(epilogue, last));
  if (fused.steps.empty()) return std::unique_ptr<Kernel>();
  fused.results = {last};
  single.attributes = std::move(fused);
  return MakeSingleOp(single, context);
}

}  // namespace gpupool::engine::cuda
