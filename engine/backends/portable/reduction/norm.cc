#include <utility>
#include <vector>

#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/launch/choose_parts.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/reduction/norm_functors.h"
#include "engine/backends/portable/reduction/norm_makers.h"

namespace gpupool::engine::portable {
namespace {

// Least run of a channel's neighbouring numbers that is read as a row: a sector
// of 32 bytes of float32.
constexpr int64_t kLeastRun = 8;

// Returns whether input i is float32 next to 16-bit data. The other statistics
// and parameters have the same type.
bool HasWideSides(const CompileRequest& request, size_t i) {
  return InputOf(request, i).dtype == DType::kFloat32;
}
template <typename T>
SideNumbers<T> SideIn(const KernelArguments& at, size_t i, bool wide) {
  return {at.in<void>(i), wide};
}
template <typename T>
SideResults<T> SideOut(const KernelArguments& at, size_t i, bool wide) {
  return {at.out<void>(i), wide};
}

// The channels of a value, and the parts of their sums.
struct ChannelPlan {
  ChannelShape shape;
  Walk<1> channel_of;    // by place in memory
  int64_t elements = 0;  // of the value

  uint64_t sum_bytes() const {
    return static_cast<uint64_t>(shape.channels * shape.parts.parts) *
           sizeof(TwoSums);
  }
};

// Returns the plan for the channels of x [N, C, ...].
ChannelPlan PlanChannels(const Value& x, const PortableContext& context) {
  const auto strides = MemoryStrides(x.shape, x.layout);
  ChannelPlan plan;
  plan.elements = x.shape.elements();
  plan.shape.channels = x.shape[1];
  plan.shape.channel_stride = strides[1];
  LoopNest numbers, channels;
  numbers.strides.resize(1);
  channels.strides.resize(1);
  for (const int axis : MemoryOrder(x.shape.rank(), x.layout)) {
    channels.sizes.push_back(x.shape[axis]);
    channels.strides[0].push_back(axis == 1 ? 1 : 0);
    if (axis == 1) continue;
    numbers.sizes.push_back(x.shape[axis]);
    numbers.strides[0].push_back(strides[static_cast<size_t>(axis)]);
  }
  plan.shape.numbers = WalkOf<1>(std::move(numbers));
  plan.channel_of = WalkOf<1>(std::move(channels));
  // If the stride between channels is large, a channel's numbers are
  // neighbours.
  plan.shape.parts = ChooseParts(
      strides[1] >= kLeastRun ? SumBy::kRow : SumBy::kColumns, x.shape[1],
      plan.elements / x.shape[1], context.resident_threads);
  return plan;
}

// A value as [product of the other dimensions, last dimension].
struct Rows {
  int64_t count = 0;
  int64_t width = 1;
};
Rows RowsOf(const Value& x) {
  const int64_t width = x.shape[x.shape.rank() - 1];
  return {x.shape.elements() / width, width};
}

// Returns the plan for the columns of x [rows, width].
ChannelPlan PlanColumns(const Rows& rows, const PortableContext& context) {
  ChannelPlan plan;
  plan.elements = rows.count * rows.width;
  plan.shape.channels = rows.width;
  plan.shape.numbers = WalkOf<1>({{rows.count}, {{rows.width}}});
  plan.shape.parts = ChooseParts(SumBy::kColumns, rows.width, rows.count,
                                 context.resident_threads);
  return plan;
}

// Computes the map of each channel, then applies the maps to input 0.
template <typename T>
void LaunchMaps(LaunchStream stream, const ChannelPlan& plan,
                const ChannelMapFunctor<T>& maps, const KernelArguments& at) {
  LaunchRows(stream, plan.shape.channels, maps);
  // The maps of all channels are ready: launches of a stream run in order.
  LaunchFor(stream, plan.elements,
            ChannelApplyFunctor<T>{at.in<T>(0), at.out<T>(0), maps.maps,
                                   plan.channel_of});
}

template <typename T>
std::unique_ptr<Kernel> MakeBatchNormTraining(const CompileRequest& request,
                                              const PortableContext& context) {
  const LaunchStream stream = context.stream;
  const ChannelPlan plan = PlanChannels(InputOf(request, 0), context);
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  const uint64_t sum_bytes = plan.sum_bytes();
  const bool wide = HasWideSides(request, 1);
  return MakeKernel(
      [=](const KernelArguments& at) {
        ChannelSumFunctor<T, ChannelSum::kMoments> sums;
        sums.x = at.in<T>(0);
        sums.sums = at.workspace<TwoSums>();
        sums.shape = plan.shape;
        LaunchRows(stream, plan.shape.parts.items(), sums);
        ChannelMapFunctor<T> maps;
        maps.x = sums.x;
        maps.sums = sums.sums;
        maps.gamma = SideIn<T>(at, 1, wide);
        maps.beta = SideIn<T>(at, 2, wide);
        maps.mean_out = SideOut<T>(at, 1, wide);
        maps.variance_out = SideOut<T>(at, 2, wide);
        // The maps lie behind the sums in the workspace.
        maps.maps = reinterpret_cast<ChannelMap<Real_t<T>>*>(
            at.workspace<std::byte>() + sum_bytes);
        maps.epsilon = epsilon;
        maps.shape = plan.shape;
        LaunchMaps(stream, plan, maps, at);
      },
      sum_bytes + static_cast<uint64_t>(plan.shape.channels) *
                      sizeof(ChannelMap<Real_t<T>>));
}

template <typename T>
std::unique_ptr<Kernel> MakeBatchNormInference(const CompileRequest& request,
                                               const PortableContext& context) {
  const LaunchStream stream = context.stream;
  const ChannelPlan plan = PlanChannels(InputOf(request, 0), context);
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  const bool wide = HasWideSides(request, 1);
  return MakeKernel(
      [=](const KernelArguments& at) {
        ChannelMapFunctor<T> maps;
        maps.gamma = SideIn<T>(at, 1, wide);
        maps.beta = SideIn<T>(at, 2, wide);
        maps.mean = SideIn<T>(at, 3, wide);
        maps.variance = SideIn<T>(at, 4, wide);
        maps.maps = at.workspace<ChannelMap<Real_t<T>>>();
        maps.epsilon = epsilon;
        maps.shape = plan.shape;
        LaunchMaps(stream, plan, maps, at);
      },
      static_cast<uint64_t>(plan.shape.channels) *
          sizeof(ChannelMap<Real_t<T>>));
}

// The plan for the gradient of a normalisation.
struct NormGradPlan {
  ChannelPlan channels;
  double epsilon = 0;
  bool wide = false;  // result of HasWideSides
};

// Sums up a gradient by channel, then computes dgamma and dbeta.
template <typename T, ChannelSum kSum>
void LaunchGradSums(LaunchStream stream, const NormGradPlan& plan,
                    const KernelArguments& at,
                    ChannelSlopes<Real_t<T>>* slopes) {
  const ChannelShape& shape = plan.channels.shape;
  const bool wide = plan.wide;
  ChannelSumFunctor<T, kSum> sums;
  sums.dy = at.in<T>(0);
  sums.x = at.in<T>(1);
  sums.mean = SideIn<T>(at, 3, wide);
  sums.variance = SideIn<T>(at, 4, wide);
  sums.sums = at.workspace<TwoSums>();
  sums.epsilon = plan.epsilon;
  sums.shape = shape;
  LaunchRows(stream, shape.parts.items(), sums);
  ChannelGradFunctor<T> grad;
  grad.sums = sums.sums;
  grad.gamma = SideIn<T>(at, 2, wide);
  grad.mean = sums.mean;
  grad.variance = sums.variance;
  grad.dgamma = SideOut<T>(at, 1, wide);
  grad.dbeta = SideOut<T>(at, 2, wide);
  grad.slopes = slopes;
  grad.epsilon = plan.epsilon;
  grad.channels = shape.channels;
  grad.parts = shape.parts;
  LaunchRows(stream, shape.channels, grad);
}

template <typename T>
std::unique_ptr<Kernel> MakeBatchNormGrad(const CompileRequest& request,
                                          const PortableContext& context) {
  const LaunchStream stream = context.stream;
  const NormGradPlan plan{PlanChannels(InputOf(request, 1), context),
                          request.node.get<NormAttributes>().epsilon,
                          HasWideSides(request, 2)};
  const uint64_t sum_bytes = plan.channels.sum_bytes();
  return MakeKernel(
      [=](const KernelArguments& at) {
        // The slopes lie behind the sums in the workspace.
        auto* slopes = reinterpret_cast<ChannelSlopes<Real_t<T>>*>(
            at.workspace<std::byte>() + sum_bytes);
        LaunchGradSums<T, ChannelSum::kBatchGradient>(stream, plan, at, slopes);
        LaunchFor(
            stream, plan.channels.elements,
            ChannelGradApplyFunctor<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0),
                                       slopes, plan.channels.channel_of});
      },
      sum_bytes + static_cast<uint64_t>(plan.channels.shape.channels) *
                      sizeof(ChannelSlopes<Real_t<T>>));
}

template <typename T>
std::unique_ptr<Kernel> MakeLayerNorm(const CompileRequest& request,
                                      LaunchStream stream) {
  const Rows rows = RowsOf(InputOf(request, 0));
  const auto& norm = request.node.get<NormAttributes>();
  const bool statistics = request.node.outputs.size() > 1;
  const bool wide = HasWideSides(request, 1);
  return MakeKernel([=, epsilon = norm.epsilon](const KernelArguments& at) {
    LayerNormFunctor<T> functor;
    functor.x = at.in<T>(0);
    functor.gamma = SideIn<T>(at, 1, wide);
    functor.beta = SideIn<T>(at, 2, wide);
    functor.y = at.out<T>(0);
    if (statistics) {
      functor.mean = SideOut<T>(at, 1, wide);
      functor.variance = SideOut<T>(at, 2, wide);
    }
    functor.epsilon = epsilon;
    functor.width = rows.width;
    LaunchRows(stream, rows.count, functor);
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeLayerNormGrad(const CompileRequest& request,
                                          const PortableContext& context) {
  const Rows rows = RowsOf(InputOf(request, 1));
  const LaunchStream stream = context.stream;
  const NormGradPlan plan{PlanColumns(rows, context),
                          request.node.get<NormAttributes>().epsilon,
                          HasWideSides(request, 2)};
  return MakeKernel(
      [=](const KernelArguments& at) {
        LaunchRows(stream, rows.count,
                   LayerNormGradFunctor<T>{
                       at.in<T>(0), at.in<T>(1), SideIn<T>(at, 2, plan.wide),
                       SideIn<T>(at, 3, plan.wide), SideIn<T>(at, 4, plan.wide),
                       at.out<T>(0), plan.epsilon, rows.width});
        // The columns' sums give dgamma and dbeta. Rows need no slopes.
        LaunchGradSums<T, ChannelSum::kLayerGradient>(stream, plan, at,
                                                      nullptr);
      },
      plan.channels.sum_bytes());
}

template <typename T, bool kLog>
std::unique_ptr<Kernel> MakeSoftmax(const CompileRequest& request,
                                    LaunchStream stream) {
  const Rows rows = RowsOf(InputOf(request, 0));
  return MakeKernel([=](const KernelArguments& at) {
    LaunchRows(stream, rows.count,
               SoftmaxFunctor<T, kLog>{at.in<T>(0), at.out<T>(0), rows.width});
  });
}

template <typename T, bool kLog>
std::unique_ptr<Kernel> MakeSoftmaxGrad(const CompileRequest& request,
                                        LaunchStream stream) {
  const Rows rows = RowsOf(InputOf(request, 0));
  return MakeKernel([=](const KernelArguments& at) {
    LaunchRows(stream, rows.count,
               SoftmaxGradFunctor<T, kLog>{at.in<T>(0), at.in<T>(1),
                                           at.out<T>(0), rows.width});
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeNormOf(const CompileRequest& request,
                                   const PortableContext& context) {
  const LaunchStream stream = context.stream;
  switch (request.node.op) {
    case Op::kBatchNormTraining:
      return MakeBatchNormTraining<T>(request, context);
    case Op::kBatchNormInference:
      return MakeBatchNormInference<T>(request, context);
    case Op::kBatchNormTrainingGrad:
      return MakeBatchNormGrad<T>(request, context);
    case Op::kLayerNorm:
      return MakeLayerNorm<T>(request, stream);
    case Op::kLayerNormGrad:
      return MakeLayerNormGrad<T>(request, context);
    case Op::kSoftmax:
      return MakeSoftmax<T, false>(request, stream);
    case Op::kLogSoftmax:
      return MakeSoftmax<T, true>(request, stream);
    case Op::kSoftmaxGrad:
      return MakeSoftmaxGrad<T, false>(request, stream);
    case Op::kLogSoftmaxGrad:
      return MakeSoftmaxGrad<T, true>(request, stream);
    default:
      return nullptr;
  }
}

}  // namespace

KernelOr MakeNorm(const CompileRequest& request,
                  const PortableContext& context) {
  switch (request.node.op) {
    case Op::kBatchNormUpdate:
      return MakeBatchNormUpdate(request, context);
    case Op::kFoldBatchNorm:
      return MakeFoldBatchNorm(request, context);
    default:
      return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
        return MakeNormOf<typename decltype(tag)::Type>(request, context);
      });
  }
}

}  // namespace gpupool::engine::portable
