#include <algorithm>

#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/product/attention_operands.h"
#include "engine/backends/portable/product/product_makers.h"

namespace gpupool::engine::portable {
namespace {

// Most bytes of scratch memory for scores. At least one row must fit.
constexpr int64_t kMostScratchBytes = int64_t{64} << 20;

// Returns the rows of a launch, each with `numbers` numbers of scratch memory.
template <typename T>
int64_t RowsAtOnce(int64_t rows, int64_t numbers) {
  const auto bytes = static_cast<int64_t>(sizeof(Real_t<T>));
  const int64_t most =
      kMostScratchBytes / bytes / std::max<int64_t>(numbers, 1);
  return std::max<int64_t>(std::min(rows, most), 1);
}

// Launches a few rows at a time. The launches are queued in order, so they may
// share the scratch memory.
template <typename Functor>
void LaunchInTurn(LaunchStream stream, int64_t rows, int64_t at_once,
                  Functor functor) {
  for (int64_t first = 0; first < rows; first += at_once) {
    functor.first_row = first;
    LaunchRows(stream, std::min(at_once, rows - first), functor);
  }
}

template <typename T>
std::unique_ptr<Kernel> MakeAttention(const CompileRequest& request,
                                      LaunchStream stream) {
  const AttentionOperands<T> operands = OperandsOf<T>(request, 0, 3);
  const Shape& q = InputOf(request, 0).shape;
  const int64_t rows = q[0] * q[1] * q[2];
  const int64_t at_once = RowsAtOnce<T>(rows, operands.keys);
  const bool with_lse = request.node.outputs.size() > 1;
  return MakeKernel(
      [=](const KernelArguments& at) {
        AttentionFunctor<T> functor;
        functor.in = operands;
        BindOperands(at, 0, 3, functor.in);
        functor.y = at.out<T>(0);
        functor.lse = with_lse ? at.out<Real_t<T>>(1) : nullptr;
        functor.scratch = at.workspace<Real_t<T>>();
        LaunchInTurn(stream, rows, at_once, functor);
      },
      static_cast<uint64_t>(at_once * operands.keys) * sizeof(Real_t<T>));
}

template <typename T>
std::unique_ptr<Kernel> MakeGradient(const CompileRequest& request,
                                     LaunchStream stream) {
  const AttentionOperands<T> operands = OperandsOf<T>(request, 1, 6);
  const Shape& q = InputOf(request, 1).shape;
  const int64_t matrices = q[0] * q[1];
  const int64_t queries = matrices * operands.queries;
  const int64_t keys = matrices * operands.keys;
  const int64_t queries_at_once = RowsAtOnce<T>(queries, operands.keys);
  const int64_t keys_at_once = RowsAtOnce<T>(keys, 2 * operands.queries);
  // The two launches run one after the other and share the memory.
  const int64_t scratch = std::max(queries_at_once * operands.keys,
                                   keys_at_once * 2 * operands.queries);
  return MakeKernel(
      [=](const KernelArguments& at) {
        AttentionSlopes<T> slopes;
        slopes.in = operands;
        BindOperands(at, 1, 6, slopes.in);
        slopes.dy = at.in<T>(0);
        slopes.y = at.in<T>(4);
        slopes.lse = at.in<Real_t<T>>(5);
        auto* numbers = at.workspace<Real_t<T>>();
        LaunchInTurn(
            stream, queries, queries_at_once,
            AttentionQueryGradFunctor<T>{slopes, at.out<T>(0), numbers, 0});
        LaunchInTurn(stream, keys, keys_at_once,
                     AttentionKeyGradFunctor<T>{slopes, at.out<T>(1),
                                                at.out<T>(2), numbers, 0});
      },
      static_cast<uint64_t>(scratch) * sizeof(Real_t<T>));
}

}  // namespace

KernelOr MakeAttention(const CompileRequest& request,
                       const PortableContext& context) {
  return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return request.node.op == Op::kAttention
               ? MakeAttention<T>(request, context.stream)
               : MakeGradient<T>(request, context.stream);
  });
}

}  // namespace gpupool::engine::portable
