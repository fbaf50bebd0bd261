#include "engine/backends/cuda/cudnn/cudnn_convolution.h"

#include <utility>
#include <vector>

#include "engine/backends/cuda/kernels/single_op.h"
#include "engine/base/status_macros.h"
#include "engine/graph/window.h"

namespace gpupool::engine::cuda {
namespace {

using portable::InputOf;
using portable::KernelOr;
using portable::OutputOf;

// Returns the window of an image (two axes) or a volume (three axes).
CudnnWindow WindowFor(const Conv2dAttributes& conv, const Shape& x,
                      const Shape& w) {
  const Window window = WindowOf(conv, x, w);
  CudnnWindow made;
  const size_t axes = static_cast<size_t>(x.rank()) - 2;
  for (size_t axis = kWindowAxes - axes; axis < kWindowAxes; ++axis) {
    made.before.push_back(window[axis].begin);
    made.behind.push_back(window[axis].end);
    made.strides.push_back(window[axis].stride);
    made.dilations.push_back(window[axis].dilation);
  }
  return made;
}

std::vector<int64_t> DimsOf(const Value& value) {
  return {value.shape.dims().begin(), value.shape.dims().end()};
}

// Returns whether a cuDNN graph can hold the whole epilogue. The library
// evaluates other activations by different formulas.
bool Fuses(const Epilogue& epilogue) {
  return epilogue.activation == Activation::kNone ||
         epilogue.activation == Activation::kRelu;
}

// Returns the bias in the shape that cuDNN wants, [1, C, 1, ...].
Value BiasValue(const Value& y) {
  Value bias;
  bias.dtype = y.dtype;
  bias.shape = y.shape.rank() == 4 ? Shape{1, y.shape[1], 1, 1}
                                   : Shape{1, y.shape[1], 1, 1, 1};
  return bias;
}

// Adds the node's epilogue as operations after the product, and the places of
// its operands. Intermediate tensors are float32 and never stored.
void AddEpilogue(const Epilogue& epilogue, const Value& value,
                 CudnnGraph::Id product, CudnnGraph::Id y, CudnnGraph& graph,
                 CudnnKernel::Parts& parts) {
  const CudnnGraph::Id bias =
      epilogue.bias ? graph.AddValue(BiasValue(value)) : 0;
  const CudnnGraph::Id residual = epilogue.residual ? graph.AddValue(value) : 0;
  const bool relu = epilogue.activation == Activation::kRelu;
  CudnnGraph::Id last = product;
  const auto next = [&](bool is_last) {
    return is_last ? y : graph.AddVirtual(CUDNN_DATA_FLOAT, DimsOf(value));
  };
  if (residual != 0) {
    const CudnnGraph::Id sum = next(bias == 0 && !relu);
    graph.Pointwise(CUDNN_POINTWISE_ADD, last, residual, sum);
    last = sum;
  }
  if (bias != 0) {
    const CudnnGraph::Id sum = next(!relu);
    graph.Pointwise(CUDNN_POINTWISE_ADD, last, bias, sum);
    last = sum;
    parts.tensors.push_back({bias, OperandPlace::Input(2)});
  }
  if (relu) graph.Pointwise(CUDNN_POINTWISE_RELU_FWD, last, 0, y);
  if (residual != 0) {
    parts.tensors.push_back(
        {residual, OperandPlace::Input(epilogue.bias ? 3 : 2)});
  }
}

// The end of a convolution.
struct Ending {
  Epilogue fused;  // part of the plan
  std::vector<CudnnKernel::Companion> after;
};

KernelOr MakeForward(const CudnnLibrary* library, const CompileRequest& request,
                     Ending ending) {
  const auto& conv = request.node.get<Conv2dAttributes>();
  const Value& x = InputOf(request, 0);
  const Value& w = InputOf(request, 1);
  const Value& y = OutputOf(request, 0);
  CudnnGraph graph(&library->functions());
  CudnnKernel::Parts parts;
  const CudnnGraph::Id x_id = graph.AddValue(x);
  const CudnnGraph::Id w_id = graph.AddValue(w);
  const CudnnGraph::Id y_id = graph.AddValue(y);
  const bool plain = ending.fused == Epilogue{};
  const CudnnGraph::Id product =
      plain ? y_id : graph.AddVirtual(CUDNN_DATA_FLOAT, DimsOf(y));
  graph.Convolve(x_id, w_id, product, WindowFor(conv, x.shape, w.shape));
  if (!plain) AddEpilogue(ending.fused, y, product, y_id, graph, parts);
  parts.tensors.push_back({x_id, OperandPlace::Input(0)});
  parts.tensors.push_back({w_id, OperandPlace::Input(1)});
  parts.tensors.push_back({y_id, OperandPlace::Output(0)});
  parts.after = std::move(ending.after);
  return CudnnKernel::Make(library, graph, std::move(parts),
                           PlanOptionsOf(request, x.dtype),
                           request.options.benchmark);
}

// Makes the product alone and a portable kernel for the whole epilogue.
KernelOr MakeInTwo(const CudnnLibrary* library, const CompileRequest& request,
                   const portable::PortableContext& context) {
  const Epilogue& epilogue = request.node.get<Conv2dAttributes>().epilogue;
  const Value& y = OutputOf(request, 0);
  Ending ending;
  CudnnKernel::Companion rest;
  ASSIGN_OR_RETURN(rest.kernel, MakeEpilogue(epilogue, y, context));
  rest.inputs = {OperandPlace::Output(0)};
  for (size_t i = 2; i < request.node.inputs.size(); ++i) {
    rest.inputs.push_back(OperandPlace::Input(i));
  }
  rest.outputs = {OperandPlace::Output(0)};
  if (rest.kernel != nullptr) {
    ending.after.push_back(std::move(rest));
  }
  return MakeForward(library, request, std::move(ending));
}

KernelOr MakeConvolution(const CudnnLibrary* library,
                         const CompileRequest& request,
                         const portable::PortableContext& context) {
  const Epilogue& epilogue = request.node.get<Conv2dAttributes>().epilogue;
  if (Fuses(epilogue)) {
    Ending ending;
    ending.fused = epilogue;
    KernelOr fused = MakeForward(library, request, std::move(ending));
    // Without an epilogue, MakeInTwo would only repeat the refusal.
    if (fused.ok() || epilogue == Epilogue{}) return fused;
  }
  return MakeInTwo(library, request, context);
}

KernelOr MakeInputGrad(const CudnnLibrary* library,
                       const CompileRequest& request) {
  const auto& grad = request.node.get<Conv2dGradAttributes>();
  const Value& dy = InputOf(request, 0);
  const Value& w = InputOf(request, 1);
  const Value& dx = OutputOf(request, 0);
  CudnnGraph graph(&library->functions());
  CudnnKernel::Parts parts;
  parts.tensors = {{graph.AddValue(dy), OperandPlace::Input(0)},
                   {graph.AddValue(w), OperandPlace::Input(1)},
                   {graph.AddValue(dx), OperandPlace::Output(0)}};
  graph.ConvolveInputGrad(parts.tensors[0].id, parts.tensors[1].id,
                          parts.tensors[2].id,
                          WindowFor(grad.conv, dx.shape, w.shape));
  return CudnnKernel::Make(library, graph, std::move(parts),
                           PlanOptionsOf(request, dy.dtype),
                           request.options.benchmark);
}

// Makes a kernel that sums dy over all axes except the channels.
absl::StatusOr<CudnnKernel::Companion> BiasGrad(
    const CompileRequest& request, const portable::PortableContext& context) {
  const Value& dy = InputOf(request, 0);
  SingleOp sum;
  sum.op = Op::kReduce;
  ReduceAttributes reduce;
  reduce.axes = {0};
  for (int axis = 2; axis < dy.shape.rank(); ++axis) {
    reduce.axes.push_back(axis);
  }
  sum.attributes = reduce;
  sum.inputs = {dy};
  sum.outputs = {OutputOf(request, 1)};
  CudnnKernel::Companion rest;
  ASSIGN_OR_RETURN(rest.kernel, MakeSingleOp(sum, context));
  rest.inputs = {OperandPlace::Input(0)};
  rest.outputs = {OperandPlace::Output(1)};
  return rest;
}

KernelOr MakeWeightGrad(const CudnnLibrary* library,
                        const CompileRequest& request,
                        const portable::PortableContext& context) {
  const auto& grad = request.node.get<Conv2dGradAttributes>();
  const Value& dy = InputOf(request, 0);
  const Value& x = InputOf(request, 1);
  const Value& dw = OutputOf(request, 0);
  CudnnGraph graph(&library->functions());
  CudnnKernel::Parts parts;
  parts.tensors = {{graph.AddValue(dy), OperandPlace::Input(0)},
                   {graph.AddValue(x), OperandPlace::Input(1)},
                   {graph.AddValue(dw), OperandPlace::Output(0)}};
  graph.ConvolveWeightGrad(parts.tensors[0].id, parts.tensors[1].id,
                           parts.tensors[2].id,
                           WindowFor(grad.conv, x.shape, dw.shape));
  if (grad.bias_grad) {
    ASSIGN_OR_RETURN(auto rest, BiasGrad(request, context));
    parts.after.push_back(std::move(rest));
  }
  return CudnnKernel::Make(library, graph, std::move(parts),
                           PlanOptionsOf(request, dy.dtype),
                           request.options.benchmark);
}

}  // namespace

KernelOr MakeCudnnConvolution(const CudnnLibrary* library,
                              const CompileRequest& request,
                              const portable::PortableContext& context) {
  const Value& first = InputOf(request, 0);
  if (!HasCudnnType(first.dtype)) return nullptr;
  if (first.shape.rank() < 4 || first.shape.elements() == 0) return nullptr;
  switch (request.node.op) {
    case Op::kConv2d:
      return MakeConvolution(library, request, context);
    case Op::kConv2dInputGrad:
      return MakeInputGrad(library, request);
    default:
      return MakeWeightGrad(library, request, context);
  }
}

}  // namespace gpupool::engine::cuda
