// Matrix products with their epilogue.
#include <algorithm>
#include <utility>

#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {
namespace {

dnnl::memory::desc MatrixDesc(const Value& value, bool transpose) {
  const int64_t rows = value.shape[0];
  const int64_t columns = value.shape[1];
  const auto type = DnnlType(value.dtype);
  if (!transpose) {
    return {{rows, columns}, type, dnnl::memory::format_tag::ab};
  }
  return {{columns, rows}, type, dnnl::memory::format_tag::ba};
}

}  // namespace

KernelOr MakeMatMul(const CompileRequest& request, const CpuContext& context) {
  const auto& attributes = request.node.get<MatMulAttributes>();
  const Epilogue& epilogue = attributes.epilogue;
  // A product of few rows takes as long as its weights take to be read.
  const int threads =
      std::max(context.ThreadsForFlops(NodeFlops(request.graph, request.node)),
               context.ThreadsForBytes(MovedBytes(request)));
  const ScopedThreads scope(threads);
  const auto a = MatrixDesc(InputOf(request, 0), attributes.transpose_a);
  const auto b = MatrixDesc(InputOf(request, 1), attributes.transpose_b);
  const Value& result = OutputOf(request, 0);
  const auto y = MatrixDesc(result, false);
  const dnnl::memory::desc bias({1, result.shape[1]}, DnnlType(result.dtype),
                                dnnl::memory::format_tag::ab);
  // Packing pays only when it happens once.
  const bool stable = request.stable_inputs[1];
  const auto b_wanted = stable ? AnyFormat(b) : b;

  dnnl::primitive_attr attr = UserScratchpad();
  attr.set_post_ops(EpiloguePostOps(epilogue));
  const auto primitive =
      epilogue.bias
          ? Describe<dnnl::matmul>(context.engine(), attr, a, b_wanted, bias, y)
          : Describe<dnnl::matmul>(context.engine(), attr, a, b_wanted, y);

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  std::vector<Operand> operands = {
      {DNNL_ARG_SRC, a, Where::kInput, 0},
      kernel->Packed({DNNL_ARG_WEIGHTS, b, Where::kInput, 1},
                     primitive.weights_desc(), stable),
      {DNNL_ARG_DST, y, Where::kOutput, 0}};
  uint64_t next = 2;
  if (epilogue.bias) {
    operands.push_back({DNNL_ARG_BIAS, bias, Where::kInput, next++});
  }
  // oneDNN adds the residual from the result's buffer.
  if (epilogue.residual) {
    kernel->AddReorder(When::kRun, {0, y, Where::kInput, next},
                       {0, y, Where::kOutput, 0});
  }
  kernel->AddStep(When::kRun, dnnl::matmul(primitive),
                  primitive.scratchpad_desc(), std::move(operands));
  return kernel;
}

}  // namespace gpupool::engine
