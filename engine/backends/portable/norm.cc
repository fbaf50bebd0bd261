#include <algorithm>
#include <utility>
#include <vector>

#include "engine/backends/portable/floating.h"
#include "engine/backends/portable/maker.h"
#include "engine/backends/portable/norm_functors.h"

namespace gpupool::engine::portable {
namespace {

// A channel is cut into parts of at least so many numbers while there are
// fewer channels than threads, or groups, that a device runs at once.
constexpr int64_t kLeastPart = 64;
constexpr int64_t kLeastRowPart = 4 << 10;  // by groups
constexpr int64_t kEnoughThreads = 128 << 10;
constexpr int64_t kEnoughGroups = 1024;

// Whether input i is float32 beside 16-bit numbers; the others are like it.
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

struct ChannelPlan {
  ChannelShape shape;
  bool rows = false;     // a channel's numbers lie next to each other
  Walk<1> channel_of;    // of the place in memory
  int64_t elements = 0;  // of the value

  uint64_t sum_bytes() const {
    return static_cast<uint64_t>(shape.channels * shape.parts) *
           sizeof(TwoSums);
  }
};

void ChooseParts(ChannelPlan& plan) {
  ChannelShape& shape = plan.shape;
  const int64_t wanted = plan.rows ? std::min(kEnoughGroups / shape.channels,
                                              shape.count / kLeastRowPart)
                                   : std::min(kEnoughThreads / shape.channels,
                                              shape.count / kLeastPart);
  int64_t parts = std::max<int64_t>(wanted, 1);
  while (parts > 1 && parts * parts > shape.count) parts /= 2;
  shape.per_part = CeilDivide(shape.count, parts);
  shape.parts = CeilDivide(shape.count, shape.per_part);
}

// The channels of x [N, C, ...].
ChannelPlan PlanChannels(const Value& x) {
  const auto strides = MemoryStrides(x.shape, x.layout);
  ChannelPlan plan;
  plan.elements = x.shape.elements();
  plan.shape.channels = x.shape[1];
  plan.shape.count = plan.elements / x.shape[1];
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
  plan.rows = plan.shape.channel_stride >= 32;
  plan.shape.numbers = WalkOf<1>(std::move(numbers));
  plan.channel_of = WalkOf<1>(std::move(channels));
  ChooseParts(plan);
  return plan;
}

// The columns of x [rows, width].
ChannelPlan PlanColumns(int64_t rows, int64_t width) {
  ChannelPlan plan;
  plan.elements = rows * width;
  plan.shape.channels = width;
  plan.shape.count = rows;
  plan.shape.channel_stride = 1;
  plan.shape.numbers = WalkOf<1>({{rows}, {{width}}});
  ChooseParts(plan);
  return plan;
}

template <typename Functor>
void LaunchSums(LaunchStream stream, const ChannelPlan& plan,
                const Functor& functor) {
  const int64_t items = plan.shape.channels * plan.shape.parts;
  if (plan.rows) {
    LaunchRows(stream, items, functor);
  } else {
    LaunchFor(stream, items, functor);
  }
}

template <typename T>
void LaunchMaps(LaunchStream stream, const ChannelPlan& plan,
                const ChannelMapFunctor<T>& maps, const T* x, T* y) {
  LaunchFor(stream, plan.shape.channels, maps);
  LaunchFor(stream, plan.elements,
            ChannelApplyFunctor<T>{x, y, maps.maps, plan.channel_of});
}

template <typename T>
std::unique_ptr<Kernel> MakeBatchNormTraining(const CompileRequest& request,
                                              LaunchStream stream) {
  const ChannelPlan plan = PlanChannels(InputOf(request, 0));
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  const uint64_t sum_bytes = plan.sum_bytes();
  const bool wide = HasWideSides(request, 1);
  return MakeKernel(
      [=](const KernelArguments& at) {
        ChannelSumFunctor<T, ChannelSum::kMoments> sums;
        sums.x = at.in<T>(0);
        sums.sums = at.workspace<TwoSums>();
        sums.shape = plan.shape;
        LaunchSums(stream, plan, sums);
        ChannelMapFunctor<T> maps;
        maps.x = sums.x;
        maps.sums = sums.sums;
        maps.gamma = SideIn<T>(at, 1, wide);
        maps.beta = SideIn<T>(at, 2, wide);
        maps.mean_out = SideOut<T>(at, 1, wide);
        maps.variance_out = SideOut<T>(at, 2, wide);
        maps.maps = reinterpret_cast<ChannelMap*>(at.workspace<std::byte>() +
                                                  sum_bytes);
        maps.epsilon = epsilon;
        maps.shape = plan.shape;
        LaunchMaps(stream, plan, maps, sums.x, at.out<T>(0));
      },
      sum_bytes +
          static_cast<uint64_t>(plan.shape.channels) * sizeof(ChannelMap));
}

template <typename T>
std::unique_ptr<Kernel> MakeBatchNormInference(const CompileRequest& request,
                                               LaunchStream stream) {
  const ChannelPlan plan = PlanChannels(InputOf(request, 0));
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  const bool wide = HasWideSides(request, 1);
  return MakeKernel(
      [=](const KernelArguments& at) {
        ChannelMapFunctor<T> maps;
        maps.gamma = SideIn<T>(at, 1, wide);
        maps.beta = SideIn<T>(at, 2, wide);
        maps.mean = SideIn<T>(at, 3, wide);
        maps.variance = SideIn<T>(at, 4, wide);
        maps.maps = at.workspace<ChannelMap>();
        maps.epsilon = epsilon;
        maps.shape = plan.shape;
        LaunchMaps(stream, plan, maps, at.in<T>(0), at.out<T>(0));
      },
      static_cast<uint64_t>(plan.shape.channels) * sizeof(ChannelMap));
}

// The sums over channels of a gradient, then dgamma and dbeta.
template <typename T, ChannelSum kSum>
void LaunchGradSums(LaunchStream stream, const ChannelPlan& plan,
                    double epsilon, const KernelArguments& at, bool wide,
                    ChannelSlopes* slopes) {
  ChannelSumFunctor<T, kSum> sums;
  sums.dy = at.in<T>(0);
  sums.x = at.in<T>(1);
  sums.mean = SideIn<T>(at, 3, wide);
  sums.variance = SideIn<T>(at, 4, wide);
  sums.sums = at.workspace<TwoSums>();
  sums.epsilon = epsilon;
  sums.shape = plan.shape;
  if constexpr (kSum == ChannelSum::kLayerGradient) {
    LaunchFor(stream, plan.shape.channels * plan.shape.parts, sums);
  } else {
    LaunchSums(stream, plan, sums);
  }
  ChannelGradFunctor<T> grad;
  grad.sums = sums.sums;
  grad.gamma = SideIn<T>(at, 2, wide);
  grad.mean = sums.mean;
  grad.variance = sums.variance;
  grad.dgamma = SideOut<T>(at, 1, wide);
  grad.dbeta = SideOut<T>(at, 2, wide);
  grad.slopes = slopes;
  grad.epsilon = epsilon;
  grad.channels = plan.shape.channels;
  grad.parts = plan.shape.parts;
  grad.count = plan.shape.count;
  LaunchFor(stream, plan.shape.channels, grad);
}

template <typename T>
std::unique_ptr<Kernel> MakeBatchNormGrad(const CompileRequest& request,
                                          LaunchStream stream) {
  const ChannelPlan plan = PlanChannels(InputOf(request, 1));
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  const uint64_t sum_bytes = plan.sum_bytes();
  const bool wide = HasWideSides(request, 2);
  return MakeKernel(
      [=](const KernelArguments& at) {
        auto* slopes = reinterpret_cast<ChannelSlopes*>(
            at.workspace<std::byte>() + sum_bytes);
        LaunchGradSums<T, ChannelSum::kBatchGradient>(stream, plan, epsilon, at,
                                                      wide, slopes);
        LaunchFor(
            stream, plan.elements,
            ChannelGradApplyFunctor<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0),
                                       slopes, plan.channel_of});
      },
      sum_bytes +
          static_cast<uint64_t>(plan.shape.channels) * sizeof(ChannelSlopes));
}

// [product of the others, last] of a value.
struct Rows {
  int64_t count = 0;
  int64_t width = 1;
};
Rows RowsOf(const Value& x) {
  const int64_t width = x.shape[x.shape.rank() - 1];
  return {x.shape.elements() / width, width};
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
                                          LaunchStream stream) {
  const Rows rows = RowsOf(InputOf(request, 1));
  const ChannelPlan plan = PlanColumns(rows.count, rows.width);
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  const bool wide = HasWideSides(request, 2);
  return MakeKernel(
      [=](const KernelArguments& at) {
        LaunchRows(stream, rows.count,
                   LayerNormGradFunctor<T>{
                       at.in<T>(0), at.in<T>(1), SideIn<T>(at, 2, wide),
                       SideIn<T>(at, 3, wide), SideIn<T>(at, 4, wide),
                       at.out<T>(0), epsilon, rows.width});
        LaunchGradSums<T, ChannelSum::kLayerGradient>(stream, plan, epsilon, at,
                                                      wide, nullptr);
      },
      plan.sum_bytes());
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

KernelOr MakeRunning(const CompileRequest& request, LaunchStream stream) {
  const auto& update = request.node.get<BatchNormUpdateAttributes>();
  const auto count = static_cast<double>(update.count);
  RunningFunctor functor;
  functor.type = InputOf(request, 0).dtype;
  functor.momentum = update.momentum;
  functor.unbias = count / (count - 1);
  return MakeKernel([=, channels = InputOf(request, 0).shape.elements()](
                        const KernelArguments& at) {
    RunningFunctor bound = functor;
    bound.running_mean = at.in<void>(0);
    bound.running_variance = at.in<void>(1);
    bound.mean = at.in<void>(2);
    bound.variance = at.in<void>(3);
    bound.mean_out = at.out<void>(0);
    bound.variance_out = at.out<void>(1);
    LaunchFor(stream, channels, bound);
  });
}

KernelOr MakeFold(const CompileRequest& request, LaunchStream stream) {
  const Value& w = InputOf(request, 0);
  const int64_t filters = w.shape[0];
  FoldFunctor functor;
  functor.type = w.dtype;
  functor.epsilon = request.node.get<NormAttributes>().epsilon;
  functor.weights = w.shape.elements();
  functor.per_filter = functor.weights / filters;
  return MakeKernel([=](const KernelArguments& at) {
    FoldFunctor bound = functor;
    bound.w = at.in<void>(0);
    bound.gamma = at.in<void>(1);
    bound.beta = at.in<void>(2);
    bound.mean = at.in<void>(3);
    bound.variance = at.in<void>(4);
    bound.bias = at.inputs() > 5 ? at.in<void>(5) : nullptr;
    bound.w_out = at.out<void>(0);
    bound.bias_out = at.out<void>(1);
    LaunchFor(stream, bound.weights + filters, bound);
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeNormOf(const CompileRequest& request,
                                   LaunchStream stream) {
  switch (request.node.op) {
    case Op::kBatchNormTraining:
      return MakeBatchNormTraining<T>(request, stream);
    case Op::kBatchNormInference:
      return MakeBatchNormInference<T>(request, stream);
    case Op::kBatchNormTrainingGrad:
      return MakeBatchNormGrad<T>(request, stream);
    case Op::kLayerNorm:
      return MakeLayerNorm<T>(request, stream);
    case Op::kLayerNormGrad:
      return MakeLayerNormGrad<T>(request, stream);
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
      return MakeRunning(request, context.stream);
    case Op::kFoldBatchNorm:
      return MakeFold(request, context.stream);
    default:
      return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
        return MakeNormOf<typename decltype(tag)::Type>(request,
                                                        context.stream);
      });
  }
}

}  // namespace gpupool::engine::portable
