#include "engine/backends/portable/product/attention_parts.h"

#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/product/attention_operands.h"
#include "engine/backends/portable/product/attention_parts_functors.h"
#include "engine/base/check.h"

namespace gpupool::engine::portable {
namespace {

constexpr float kLeastFloat16 = -65504;

// Returns make(TypeTag<T>()) for the T of a 16-bit type.
template <typename Make>
std::unique_ptr<Kernel> ForHalf(DType type, const Make& make) {
  if (type == DType::kFloat16) return make(TypeTag<Float16>());
  GPUPOOL_CHECK(type == DType::kBFloat16);
  return make(TypeTag<BFloat16>());
}

}  // namespace

std::unique_ptr<Kernel> MakeFiniteMask(const Value& mask, LaunchStream stream) {
  const int64_t count = mask.shape.elements();
  // kHiddenScore does not fit float16.
  const float least =
      mask.dtype == DType::kFloat16 ? kLeastFloat16 : -kHiddenScore;
  return ForHalf(mask.dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    return MakeKernel([=](const KernelArguments& at) {
      LaunchFor(stream, count,
                FiniteMaskFunctor<T>{at.in<T>(0), at.out<T>(0), least});
    });
  });
}

std::unique_ptr<Kernel> MakeFiniteLogarithms(int64_t rows,
                                             LaunchStream stream) {
  return MakeKernel([=](const KernelArguments& at) {
    LaunchFor(stream, rows,
              FiniteLogarithmsFunctor{at.in(0), at.out(0), kHiddenScore});
  });
}

std::unique_ptr<Kernel> MakeBlindRows(const CompileRequest& request,
                                      LaunchStream stream) {
  const Value& q = InputOf(request, 0);
  const int64_t rows = q.shape[0] * q.shape[1] * q.shape[2];
  const bool with_lse = request.node.outputs.size() > 1;
  return ForHalf(q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const AttentionOperands<T> operands = OperandsOf<T>(request, 0, 3);
    return MakeKernel([=](const KernelArguments& at) {
      BlindRowsFunctor<T> functor;
      functor.in = operands;
      // The kernel's only input is the mask, so BindOperands does not apply.
      functor.in.mask = at.in<T>(0);
      functor.y = at.out<T>(0);
      functor.lse = with_lse ? at.out(1) : nullptr;
      LaunchRows(stream, rows, functor);
    });
  });
}

std::unique_ptr<Kernel> MakeAttentionShares(const CompileRequest& request,
                                            const AttentionChunk& chunk,
                                            LaunchStream stream) {
  AttentionSharesFunctor functor;
  functor.in = OperandsOf<float>(request, 0, 3);
  functor.first_matrix = chunk.first;
  const int64_t rows = chunk.count * functor.in.queries;
  const bool with_lse = request.node.outputs.size() > 1;
  return MakeKernel([=](const KernelArguments& at) {
    AttentionSharesFunctor bound = functor;
    if (at.inputs() > 0) bound.in.mask = at.in(0);
    bound.scores = at.out(0);
    bound.lse = with_lse ? at.out(1) : nullptr;
    LaunchRows(stream, rows, bound);
  });
}

std::unique_ptr<Kernel> MakeAttentionSlopes(const CompileRequest& request,
                                            const AttentionChunk& chunk,
                                            LaunchStream stream) {
  AttentionSlopesFunctor functor;
  functor.in = OperandsOf<float>(request, 1, 6);
  functor.first_matrix = chunk.first;
  const int64_t rows = chunk.count * functor.in.queries;
  return MakeKernel([=](const KernelArguments& at) {
    AttentionSlopesFunctor bound = functor;
    bound.dy = at.in(0);
    bound.y = at.in(1);
    bound.lse = at.in(2);
    if (at.inputs() > 3) bound.in.mask = at.in(3);
    bound.p = at.out(0);
    bound.ds = at.out(1);
    LaunchRows(stream, rows, bound);
  });
}

}  // namespace gpupool::engine::portable
