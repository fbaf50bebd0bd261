// Functors of optimizer steps and running averages, one element per call. (Host
// and device; plain C++.)
//
// T is a floating type. Learning rate, step and clip coefficient lie in the
// device's memory. A clip coefficient of NaN leaves everything unchanged.
// Results may overwrite the values that they replace. Formulas:
// engine/autodiff/step_tail.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"

namespace gpupool::engine::portable {

// The inputs of every optimizer step.
template <typename T>
struct StepInputs {
  const T* p = nullptr;
  const T* g = nullptr;
  const double* learning_rate = nullptr;
  const int64_t* step = nullptr;
  const float* clip = nullptr;  // null: 1
  double weight_decay = 0;

  // Returns whether this step changes nothing.
  GPUPOOL_HOST_DEVICE bool Keeps() const {
    return clip != nullptr && *clip != *clip;
  }
  GPUPOOL_HOST_DEVICE Real_t<T> Rate() const {
    return static_cast<Real_t<T>>(*learning_rate);
  }
  // Returns the gradient after clipping.
  GPUPOOL_HOST_DEVICE Real_t<T> Gradient(int64_t i) const {
    const Real_t<T> slope = Load(g, i);
    return clip == nullptr ? slope : slope * static_cast<Real_t<T>>(*clip);
  }
  // Returns the gradient after clipping plus weight decay.
  GPUPOOL_HOST_DEVICE Real_t<T> Decayed(int64_t i) const {
    return Gradient(i) + static_cast<Real_t<T>>(weight_decay) * Load(p, i);
  }
};

template <typename T>
struct SgdFunctor {
  StepInputs<T> in;
  const T* velocity = nullptr;  // null: no momentum
  T* p_out = nullptr;
  T* velocity_out = nullptr;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    if (in.Keeps()) {
      p_out[i] = in.p[i];
      if (velocity != nullptr) velocity_out[i] = velocity[i];
      return;
    }
    const R p = Load(in.p, i);
    R g = in.Decayed(i);
    if (velocity != nullptr) {
      const auto keep = static_cast<R>(momentum);
      const R v = *in.step <= 1 ? g
                                : keep * Load(velocity, i) +
                                      static_cast<R>(1 - dampening) * g;
      g = nesterov ? g + keep * v : v;
      Store(velocity_out, i, v);
    }
    Store(p_out, i, p - in.Rate() * g);
  }
};

template <typename T>
struct AdamFunctor {
  StepInputs<T> in;
  const T* m = nullptr;
  const T* v = nullptr;
  T* p_out = nullptr;
  T* m_out = nullptr;
  T* v_out = nullptr;
  double beta1 = 0.9, beta2 = 0.999;
  double log_beta1 = 0, log_beta2 = 0;  // their natural logarithms
  double epsilon = 1e-8;
  bool decoupled = false;

  // Returns 1 - beta^step.
  GPUPOOL_HOST_DEVICE Real_t<T> Correction(double log_beta) const {
    const double power = static_cast<double>(*in.step) * log_beta;
    return -std::expm1(static_cast<Real_t<T>>(power));
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    if (in.Keeps()) {
      p_out[i] = in.p[i];
      m_out[i] = m[i];
      v_out[i] = v[i];
      return;
    }
    const R rate = in.Rate();
    R p = Load(in.p, i);
    R g;
    if (decoupled) {
      g = in.Gradient(i);
      p *= static_cast<R>(1 - *in.learning_rate * in.weight_decay);
    } else {
      g = in.Decayed(i);
    }
    const R m_new =
        static_cast<R>(beta1) * Load(m, i) + static_cast<R>(1 - beta1) * g;
    const R v_new =
        static_cast<R>(beta2) * Load(v, i) + static_cast<R>(1 - beta2) * g * g;
    const R root = std::sqrt(v_new) / std::sqrt(Correction(log_beta2)) +
                   static_cast<R>(epsilon);
    Store(p_out, i, p - rate / Correction(log_beta1) * m_new / root);
    Store(m_out, i, m_new);
    Store(v_out, i, v_new);
  }
};

template <typename T>
struct RmspropFunctor {
  StepInputs<T> in;
  const T* v = nullptr;
  const T* mean = nullptr;    // null: not centered
  const T* buffer = nullptr;  // null: no momentum
  T* p_out = nullptr;
  T* v_out = nullptr;
  T* mean_out = nullptr;
  T* buffer_out = nullptr;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    if (in.Keeps()) {
      p_out[i] = in.p[i];
      v_out[i] = v[i];
      if (mean != nullptr) mean_out[i] = mean[i];
      if (buffer != nullptr) buffer_out[i] = buffer[i];
      return;
    }
    const auto keep = static_cast<R>(alpha);
    const auto take = static_cast<R>(1 - alpha);
    const R p = Load(in.p, i);
    const R g = in.Decayed(i);
    const R v_new = keep * Load(v, i) + take * g * g;
    R square = v_new;
    if (mean != nullptr) {
      const R mean_new = keep * Load(mean, i) + take * g;
      square -= mean_new * mean_new;
      Store(mean_out, i, mean_new);
    }
    R move = g / (std::sqrt(square) + static_cast<R>(epsilon));
    if (buffer != nullptr) {
      move += static_cast<R>(momentum) * Load(buffer, i);
      Store(buffer_out, i, move);
    }
    Store(p_out, i, p - in.Rate() * move);
    Store(v_out, i, v_new);
  }
};

template <typename T>
struct AdagradFunctor {
  StepInputs<T> in;
  const T* sum = nullptr;
  T* p_out = nullptr;
  T* sum_out = nullptr;
  double lr_decay = 0;
  double epsilon = 1e-10;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    if (in.Keeps()) {
      p_out[i] = in.p[i];
      sum_out[i] = sum[i];
      return;
    }
    const auto rate = static_cast<R>(
        *in.learning_rate / (1 + static_cast<double>(*in.step - 1) * lr_decay));
    const R p = Load(in.p, i);
    const R g = in.Decayed(i);
    const R sum_new = Load(sum, i) + g * g;
    Store(p_out, i,
          p - rate * g / (std::sqrt(sum_new) + static_cast<R>(epsilon)));
    Store(sum_out, i, sum_new);
  }
};

template <typename T>
struct LionFunctor {
  StepInputs<T> in;
  const T* m = nullptr;
  T* p_out = nullptr;
  T* m_out = nullptr;
  double beta1 = 0.9, beta2 = 0.99;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    if (in.Keeps()) {
      p_out[i] = in.p[i];
      m_out[i] = m[i];
      return;
    }
    const R g = in.Gradient(i);
    const R old = Load(m, i);
    const R blend = static_cast<R>(beta1) * old + static_cast<R>(1 - beta1) * g;
    const R sign = blend > R(0) ? R(1) : (blend < R(0) ? R(-1) : R(0));
    const auto shrink = static_cast<R>(1 - *in.learning_rate * in.weight_decay);
    Store(p_out, i, Load(in.p, i) * shrink - in.Rate() * sign);
    Store(m_out, i,
          static_cast<R>(beta2) * old + static_cast<R>(1 - beta2) * g);
  }
};

template <typename T>
struct AdamaxFunctor {
  StepInputs<T> in;
  const T* m = nullptr;
  const T* u = nullptr;
  T* p_out = nullptr;
  T* m_out = nullptr;
  T* u_out = nullptr;
  double beta1 = 0.9, beta2 = 0.999;
  double log_beta1 = 0;  // the natural logarithm of beta1
  double epsilon = 1e-8;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    if (in.Keeps()) {
      p_out[i] = in.p[i];
      m_out[i] = m[i];
      u_out[i] = u[i];
      return;
    }
    const auto correction =
        -std::expm1(static_cast<R>(static_cast<double>(*in.step) * log_beta1));
    const R p = Load(in.p, i);
    const R g = in.Decayed(i);
    const R m_new =
        static_cast<R>(beta1) * Load(m, i) + static_cast<R>(1 - beta1) * g;
    const R decayed = static_cast<R>(beta2) * Load(u, i);
    const R size = std::fabs(g) + static_cast<R>(epsilon);
    const R u_new = size < decayed ? decayed : size;  // NaN of g stays
    Store(p_out, i, p - in.Rate() / correction * m_new / u_new);
    Store(m_out, i, m_new);
    Store(u_out, i, u_new);
  }
};

template <typename T>
struct EmaFunctor {
  const T* average = nullptr;
  const T* p = nullptr;
  T* y = nullptr;
  double decay = 0.999;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    Store(y, i,
          static_cast<R>(decay) * Load(average, i) +
              static_cast<R>(1 - decay) * Load(p, i));
  }
};

}  // namespace gpupool::engine::portable

#define GPUPOOL_OPTIMIZER_FUNCTORS_OF(FOR, T) \
  FOR(SgdFunctor<T>)                          \
  FOR(AdamFunctor<T>)                         \
  FOR(RmspropFunctor<T>)                      \
  FOR(AdagradFunctor<T>)                      \
  FOR(LionFunctor<T>)                         \
  FOR(AdamaxFunctor<T>)                       \
  FOR(EmaFunctor<T>)

// Calls FOR with every functor of LaunchFor; none is one of LaunchRows.
#define GPUPOOL_OPTIMIZER_FUNCTORS(FOR, ROWS)  \
  GPUPOOL_OPTIMIZER_FUNCTORS_OF(FOR, float)    \
  GPUPOOL_OPTIMIZER_FUNCTORS_OF(FOR, BFloat16) \
  GPUPOOL_OPTIMIZER_FUNCTORS_OF(FOR, Float16)  \
  GPUPOOL_OPTIMIZER_FUNCTORS_OF(FOR, double)
