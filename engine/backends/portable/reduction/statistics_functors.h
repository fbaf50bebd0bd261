// Functors of a channel's statistics: running statistics, folding, and other
// forms of the variance. Part of the norm family. (Host and device; plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"

namespace gpupool::engine::portable {

// Updates the running statistics of batch norm. Any floating type.
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

// Computes w' and then bias' of a folded batch norm. Calls below `weights` are
// for w', the others for bias'. Any floating type.
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

// Converts float32 variances to 1 / sqrt(variance + epsilon), the form that
// libraries keep, or back. `from` may be `to`.
struct SpreadFunctor {
  const float* from = nullptr;
  float* to = nullptr;
  double epsilon = 0;
  bool back = false;

  GPUPOOL_HOST_DEVICE void operator()(int64_t c) const {
    const double x = from[c];
    if (!back) {
      to[c] = static_cast<float>(1 / std::sqrt(x + epsilon));
      return;
    }
    const double variance = 1 / (x * x) - epsilon;
    // Rounding may give a negative number for 0. NaN stays.
    to[c] = static_cast<float>(variance < 0 ? 0 : variance);
  }
};

}  // namespace gpupool::engine::portable
