// Functors over the channels of images: batch norm, its gradient, running
// statistics and folding. (Host and device; plain C++.)
//
// T is a floating type. Sums are made in double, in an order that depends on
// the shape and on the lanes of a group only, in two stages: parts of a channel
// first, then the parts' sums.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/host_device.h"
#include "engine/backends/portable/real.h"
#include "engine/backends/portable/two_sums.h"
#include "engine/backends/portable/walk.h"

namespace gpupool::engine::portable {

// Where the numbers of channels lie: number k of channel c is at c *
// channel_stride + numbers(k), and each channel's are cut into parts.
struct ChannelShape {
  int64_t channels = 1;
  int64_t count = 1;  // numbers per channel
  int64_t channel_stride = 1;
  int64_t per_part = 1;
  int64_t parts = 1;
  Walk<1> numbers;

  GPUPOOL_HOST_DEVICE int64_t At(int64_t channel, int64_t k) const {
    return channel * channel_stride + numbers.FindOne(k, 0);
  }
  GPUPOOL_HOST_DEVICE int64_t End(int64_t part) const {
    const int64_t end = (part + 1) * per_part;
    return end < count ? end : count;
  }
};

enum class ChannelSum : uint8_t {
  kMoments,        // of d = x - the channel's first number: d, d^2
  kBatchGradient,  // dy, dy * h; mean and variance by channel
  kLayerGradient,  // the same; mean and variance by number
};

// Sums of a part of a channel: item part * channels + c. One thread for each,
// or one group where a channel's numbers lie next to each other.
template <typename T, ChannelSum kSum>
struct ChannelSumFunctor {
  const T* dy = nullptr;  // gradients only
  const T* x = nullptr;
  SideNumbers<T> mean;      // gradients only
  SideNumbers<T> variance;  // gradients only
  TwoSums* sums = nullptr;  // [parts, channels]
  double epsilon = 0;
  ChannelShape shape;

  GPUPOOL_HOST_DEVICE TwoSums Add(int64_t item, int64_t lane,
                                  int64_t lanes) const {
    using R = Real_t<T>;
    const int64_t part = shape.parts == 1 ? 0 : item / shape.channels;
    const int64_t channel = item - part * shape.channels;
    TwoSums total;
    const R origin =
        kSum == ChannelSum::kMoments ? Load(x, shape.At(channel, 0)) : R(0);
    R centre = 0, factor = 0;
    if constexpr (kSum == ChannelSum::kBatchGradient) {
      centre = mean.Get(channel);
      factor = R(1) / std::sqrt(variance.Get(channel) + R(epsilon));
    }
    const int64_t end = shape.End(part);
    for (int64_t k = part * shape.per_part + lane; k < end; k += lanes) {
      const int64_t at = shape.At(channel, k);
      if constexpr (kSum == ChannelSum::kMoments) {
        const double d = Load(x, at) - origin;
        total.first += d;
        total.second += d * d;
      } else {
        if constexpr (kSum == ChannelSum::kLayerGradient) {
          centre = mean.Get(k);
          factor = R(1) / std::sqrt(variance.Get(k) + R(epsilon));
        }
        const R slope = Load(dy, at);
        total.first += slope;
        total.second += slope * ((Load(x, at) - centre) * factor);
      }
    }
    return total;
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t item) const {
    sums[item] = Add(item, 0, 1);
  }
  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t item) const {
    const TwoSums mine = Add(item, group.lane(), group.lanes());
    const double first = group.Sum(mine.first);
    const double second = group.Sum(mine.second);
    if (group.lane() == 0) sums[item] = {first, second};
  }
};

// A channel's sums over all parts.
GPUPOOL_HOST_DEVICE inline TwoSums JoinParts(const TwoSums* sums,
                                             int64_t channels, int64_t parts,
                                             int64_t channel) {
  TwoSums total;
  for (int64_t part = 0; part < parts; ++part) {
    total.first += sums[part * channels + channel].first;
    total.second += sums[part * channels + channel].second;
  }
  return total;
}

// y = (x - centre) * factor + shift.
struct ChannelMap {
  double centre = 0;
  double factor = 1;
  double shift = 0;
};

// The maps of batch norm, channel by channel: out of moments (training, which
// stores mean and variance too) or of given statistics (inference).
template <typename T>
struct ChannelMapFunctor {
  const T* x = nullptr;           // training only
  const TwoSums* sums = nullptr;  // training only
  SideNumbers<T> mean;            // inference only
  SideNumbers<T> variance;        // inference only
  SideNumbers<T> gamma;
  SideNumbers<T> beta;
  SideResults<T> mean_out;      // training only
  SideResults<T> variance_out;  // training only
  ChannelMap* maps = nullptr;
  double epsilon = 0;
  ChannelShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t channel) const {
    double centre, spread;
    if (sums != nullptr) {
      const TwoSums total =
          JoinParts(sums, shape.channels, shape.parts, channel);
      const auto count = static_cast<double>(shape.count);
      const double shift = total.first / count;
      const double variance_here = total.second / count - shift * shift;
      centre = Load(x, shape.At(channel, 0)) + shift;
      // NaN stays.
      spread = variance_here < 0 ? 0 : variance_here;
      mean_out.Set(channel, static_cast<Real_t<T>>(centre));
      variance_out.Set(channel, static_cast<Real_t<T>>(spread));
    } else {
      centre = mean.Get(channel);
      spread = variance.Get(channel);
    }
    maps[channel] = {centre,
                     double{gamma.Get(channel)} / std::sqrt(spread + epsilon),
                     double{beta.Get(channel)}};
  }
};

// y = map of x; item i is at place i in memory.
template <typename T>
struct ChannelApplyFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  const ChannelMap* maps = nullptr;
  Walk<1> channel_of;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const ChannelMap& map = maps[channel_of.FindOne(i, 0)];
    Store(
        y, i,
        (Load(x, i) - static_cast<R>(map.centre)) * static_cast<R>(map.factor) +
            static_cast<R>(map.shift));
  }
};

// What dx needs of a channel: dx = factor * (dy - slope - h * slope_h) with
// h = (x - centre) * spread.
struct ChannelSlopes {
  double centre = 0;
  double spread = 0;   // 1 / sqrt(variance + epsilon)
  double factor = 0;   // gamma * spread
  double slope = 0;    // mean of dy
  double slope_h = 0;  // mean of dy * h
};

// dgamma and dbeta, and for batch norm the channel's slopes.
template <typename T>
struct ChannelGradFunctor {
  const TwoSums* sums = nullptr;
  SideNumbers<T> gamma;  // batch norm only
  SideNumbers<T> mean;
  SideNumbers<T> variance;
  SideResults<T> dgamma;
  SideResults<T> dbeta;
  ChannelSlopes* slopes = nullptr;  // null for layer norm
  double epsilon = 0;
  int64_t channels = 1;
  int64_t parts = 1;
  int64_t count = 1;

  GPUPOOL_HOST_DEVICE void operator()(int64_t channel) const {
    const TwoSums total = JoinParts(sums, channels, parts, channel);
    dbeta.Set(channel, static_cast<Real_t<T>>(total.first));
    dgamma.Set(channel, static_cast<Real_t<T>>(total.second));
    if (slopes == nullptr) return;
    const double spread = 1 / std::sqrt(variance.Get(channel) + epsilon);
    slopes[channel] = {double{mean.Get(channel)}, spread,
                       spread * gamma.Get(channel),
                       total.first / static_cast<double>(count),
                       total.second / static_cast<double>(count)};
  }
};

template <typename T>
struct ChannelGradApplyFunctor {
  const T* dy = nullptr;
  const T* x = nullptr;
  T* dx = nullptr;
  const ChannelSlopes* slopes = nullptr;
  Walk<1> channel_of;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const ChannelSlopes& at = slopes[channel_of.FindOne(i, 0)];
    const R h =
        (Load(x, i) - static_cast<R>(at.centre)) * static_cast<R>(at.spread);
    Store(dx, i,
          static_cast<R>(at.factor) * (Load(dy, i) - static_cast<R>(at.slope) -
                                       h * static_cast<R>(at.slope_h)));
  }
};

// The running statistics of batch norm; any floating type.
struct RunningFunctor {
  const void* running_mean = nullptr;
  const void* running_variance = nullptr;
  const void* mean = nullptr;
  const void* variance = nullptr;
  void* mean_out = nullptr;
  void* variance_out = nullptr;
  DType type = DType::kFloat32;
  double momentum = 0;
  double unbias = 1;  // count / (count - 1)

  GPUPOOL_HOST_DEVICE void operator()(int64_t c) const {
    const double old_mean = LoadDouble(type, running_mean, c);
    const double old_variance = LoadDouble(type, running_variance, c);
    StoreDouble(
        type, mean_out, c,
        (1 - momentum) * old_mean + momentum * LoadDouble(type, mean, c));
    StoreDouble(type, variance_out, c,
                (1 - momentum) * old_variance +
                    momentum * LoadDouble(type, variance, c) * unbias);
  }
};

// w' and, behind them, bias' of a folded batch norm; any floating type.
struct FoldFunctor {
  const void* w = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  const void* mean = nullptr;
  const void* variance = nullptr;
  const void* bias = nullptr;  // null: none
  void* w_out = nullptr;
  void* bias_out = nullptr;
  DType type = DType::kFloat32;
  double epsilon = 0;
  int64_t weights = 1;
  int64_t per_filter = 1;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t f = i < weights ? i / per_filter : i - weights;
    const double factor = LoadDouble(type, gamma, f) /
                          std::sqrt(LoadDouble(type, variance, f) + epsilon);
    if (i < weights) {
      StoreDouble(type, w_out, i, LoadDouble(type, w, i) * factor);
      return;
    }
    const double before = bias == nullptr ? 0 : LoadDouble(type, bias, f);
    StoreDouble(type, bias_out, f,
                LoadDouble(type, beta, f) +
                    (before - LoadDouble(type, mean, f)) * factor);
  }
};

}  // namespace gpupool::engine::portable
