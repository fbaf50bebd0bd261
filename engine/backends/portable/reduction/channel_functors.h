// Functors over the channels of images: batch norm and its gradient. (Host and
// device; plain C++.)
//
// T is a floating type. Sums are made in double in two launches: first of parts
// of a channel (parts.h), then of the parts' sums. Their order depends only on
// the shape, the device's size and the number of lanes of a group.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/parts.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/arithmetic/two_sums.h"
#include "engine/backends/portable/arithmetic/walk.h"

namespace gpupool::engine::portable {

// The places of the channels' numbers. Number k of channel c is at c *
// channel_stride + numbers(k).
struct ChannelShape {
  int64_t channels = 1;
  int64_t channel_stride = 1;
  Walk<1> numbers;
  Parts parts;

  GPUPOOL_HOST_DEVICE int64_t First(int64_t channel) const {
    return channel * channel_stride;
  }
};

enum class ChannelSum : uint8_t {
  kMoments,        // of d = x - the channel's first number: d, d^2
  kBatchGradient,  // dy, dy * h; mean and variance by channel
  kLayerGradient,  // the same; mean and variance by number
};

// Sums up parts of channels. Item i is an item of ChannelShape::parts.
template <typename T, ChannelSum kSum>
struct ChannelSumFunctor {
  const T* dy = nullptr;  // gradients only
  const T* x = nullptr;
  SideNumbers<T> mean;      // gradients only
  SideNumbers<T> variance;  // gradients only
  TwoSums* sums = nullptr;  // [parts, channels]
  double epsilon = 0;
  ChannelShape shape;

  // Sums up the part's numbers first, first + step, ...
  GPUPOOL_HOST_DEVICE TwoSums Add(int64_t part, int64_t channel, int64_t first,
                                  int64_t step) const {
    using R = Real_t<T>;
    TwoSums total;
    const int64_t base = shape.First(channel);
    const int64_t begin = shape.parts.Begin(part) + first;
    const int64_t end = shape.parts.End(part);
    if constexpr (kSum == ChannelSum::kMoments) {
      const R origin = Load(x, base);
      shape.numbers.ForEach(begin, end, step, [&](int64_t at) {
        const double d = Load(x, base + at) - origin;
        total.first += d;
        total.second += d * d;
      });
    } else if constexpr (kSum == ChannelSum::kBatchGradient) {
      const R centre = mean.Get(channel);
      const R factor = Spread(variance.Get(channel));
      shape.numbers.ForEach(begin, end, step, [&](int64_t at) {
        const R slope = Load(dy, base + at);
        total.first += slope;
        total.second += slope * ((Load(x, base + at) - centre) * factor);
      });
    } else {
      const int64_t stride = shape.numbers.strides[0][0];
      GPUPOOL_UNROLL
      for (int64_t k = begin; k < end; k += step) {
        const int64_t at = base + k * stride;
        const R slope = Load(dy, at);
        total.first += slope;
        total.second +=
            slope * ((Load(x, at) - mean.Get(k)) * Spread(variance.Get(k)));
      }
    }
    return total;
  }
  GPUPOOL_HOST_DEVICE Real_t<T> Spread(Real_t<T> at) const {
    using R = Real_t<T>;
    return R(1) / std::sqrt(at + R(epsilon));
  }

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t item) const {
    shape.parts.ForEachSum(
        group, item, [&](int64_t part, int64_t channel, int columns) {
          TwoSums mine;
          const bool real = channel < shape.channels;
          if (real) {
            mine = Add(part, channel, group.lane() / columns,
                       group.lanes() / columns);
          }
          mine.first = group.SumOfColumn(mine.first, columns);
          mine.second = group.SumOfColumn(mine.second, columns);
          if (real && group.lane() < columns) {
            sums[part * shape.channels + channel] = mine;
          }
        });
  }
};

// Returns a channel's sums over all parts, to all lanes.
template <typename Group>
GPUPOOL_HOST_DEVICE inline TwoSums JoinParts(const Group& group,
                                             const TwoSums* sums,
                                             int64_t channels, int64_t parts,
                                             int64_t channel) {
  TwoSums mine;
  for (int64_t part = group.lane(); part < parts; part += group.lanes()) {
    mine.first += sums[part * channels + channel].first;
    mine.second += sums[part * channels + channel].second;
  }
  return {group.Sum(mine.first), group.Sum(mine.second)};
}

// y = (x - centre) * factor + shift.
template <typename R>
struct ChannelMap {
  R centre = 0;
  R factor = 1;
  R shift = 0;
};

// Makes the maps of batch norm, one group per channel. Training computes mean
// and variance from the sums and stores them. Inference gets them.
template <typename T>
struct ChannelMapFunctor {
  using R = Real_t<T>;
  const T* x = nullptr;           // training only
  const TwoSums* sums = nullptr;  // training only
  SideNumbers<T> mean;            // inference only
  SideNumbers<T> variance;        // inference only
  SideNumbers<T> gamma;
  SideNumbers<T> beta;
  SideResults<T> mean_out;      // training only
  SideResults<T> variance_out;  // training only
  ChannelMap<R>* maps = nullptr;
  double epsilon = 0;
  ChannelShape shape;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group,
                                      int64_t channel) const {
    TwoSums total;
    if (sums != nullptr) {
      total =
          JoinParts(group, sums, shape.channels, shape.parts.parts, channel);
    }
    if (group.lane() != 0) return;
    double centre, spread;
    if (sums != nullptr) {
      const auto count = static_cast<double>(shape.parts.count);
      const double shift = total.first / count;
      const double variance_here = total.second / count - shift * shift;
      centre = Load(x, shape.First(channel)) + shift;
      // NaN stays.
      spread = variance_here < 0 ? 0 : variance_here;
      mean_out.Set(channel, static_cast<R>(centre));
      variance_out.Set(channel, static_cast<R>(spread));
    } else {
      centre = mean.Get(channel);
      spread = variance.Get(channel);
    }
    maps[channel] = {static_cast<R>(centre),
                     static_cast<R>(double{gamma.Get(channel)} /
                                    std::sqrt(spread + epsilon)),
                     beta.Get(channel)};
  }
};

// Computes y = map of x. Item i is at place i in memory.
template <typename T>
struct ChannelApplyFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  const ChannelMap<Real_t<T>>* maps = nullptr;
  Walk<1> channel_of;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const auto& map = maps[channel_of.FindOne(i, 0)];
    Store(y, i, (Load(x, i) - map.centre) * map.factor + map.shift);
  }
};

// A channel's part of dx = factor * (dy - slope - (x - centre) * tilt).
template <typename R>
struct ChannelSlopes {
  R centre = 0;
  R factor = 0;  // gamma / sqrt(variance + epsilon)
  R slope = 0;   // mean of dy
  R tilt = 0;    // mean of dy * (x - centre), over variance + epsilon
};

// Computes dgamma and dbeta, and for batch norm the channel's slopes. One group
// per channel.
template <typename T>
struct ChannelGradFunctor {
  using R = Real_t<T>;
  const TwoSums* sums = nullptr;
  SideNumbers<T> gamma;  // batch norm only
  SideNumbers<T> mean;
  SideNumbers<T> variance;
  SideResults<T> dgamma;
  SideResults<T> dbeta;
  ChannelSlopes<R>* slopes = nullptr;  // null for layer norm
  double epsilon = 0;
  int64_t channels = 1;
  Parts parts;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group,
                                      int64_t channel) const {
    const TwoSums total =
        JoinParts(group, sums, channels, parts.parts, channel);
    if (group.lane() != 0) return;
    dbeta.Set(channel, static_cast<R>(total.first));
    dgamma.Set(channel, static_cast<R>(total.second));
    if (slopes == nullptr) return;
    const double spread = 1 / std::sqrt(variance.Get(channel) + epsilon);
    const auto count = static_cast<double>(parts.count);
    slopes[channel] = {mean.Get(channel),
                       static_cast<R>(spread * gamma.Get(channel)),
                       static_cast<R>(total.first / count),
                       static_cast<R>(total.second / count * spread)};
  }
};

template <typename T>
struct ChannelGradApplyFunctor {
  const T* dy = nullptr;
  const T* x = nullptr;
  T* dx = nullptr;
  const ChannelSlopes<Real_t<T>>* slopes = nullptr;
  Walk<1> channel_of;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const auto& at = slopes[channel_of.FindOne(i, 0)];
    Store(dx, i,
          at.factor *
              (Load(dy, i) - at.slope - (Load(x, i) - at.centre) * at.tilt));
  }
};

}  // namespace gpupool::engine::portable
