// Numbers and addresses of one optimizer step, for the SIMD loops.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/function_kernel.h"

namespace gpupool::engine {

// The elements of the parameter, and the threads that share them.
struct StepSize {
  int64_t elements;
  int threads;
};

// Kernels of optimizers that are in files of their own; optimizer_adaptive.cc
// has the others and chooses.
KernelOr MakeStep(const SgdAttributes& attributes, const StepSize& size);
KernelOr MakeStep(const AdamAttributes& attributes, const StepSize& size);

// Returns the clip coefficient of an optimizer node, which is its last input.
// Returns 1 when the node has none.
inline float ClipOf(const KernelArguments& at, bool clip) {
  return clip ? *at.in(at.inputs() - 1) : 1.0f;
}

// Returns whether the clip coefficient is NaN. If so, copies the parameter and
// the states, of `count` numbers each, to the outputs unchanged.
inline bool KeepsEverything(const KernelArguments& at, bool clip,
                            int64_t count) {
  if (!std::isnan(ClipOf(at, clip))) return false;
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  const size_t states = at.inputs() - 5;
  for (size_t i = 0; i <= states; ++i) {
    std::memmove(at.out(i), at.in(i == 0 ? 0 : 3 + i), bytes);
  }
  return true;
}

// v' = keep * v + take * g;  p' = p - rate * (nesterov ? g + momentum v' : v')
// with g = clip * gradient + weight_decay * p.
struct SgdStep {
  const float* p = nullptr;
  const float* g = nullptr;
  const float* velocity = nullptr;  // null: p' = p - rate * g
  float* p_out = nullptr;
  float* velocity_out = nullptr;
  float learning_rate = 0;
  float weight_decay = 0;
  float clip = 1;
  float momentum = 0;
  float keep_velocity = 0;
  float take_gradient = 1;
  bool nesterov = false;
};

// p' = shrink * p - rate * m' / (sqrt(v') * root_scale + epsilon). The bias
// corrections are part of rate and root_scale.
struct AdamStep {
  const float* p = nullptr;
  const float* g = nullptr;
  const float* m = nullptr;
  const float* v = nullptr;
  float* p_out = nullptr;
  float* m_out = nullptr;
  float* v_out = nullptr;
  float clip = 1;
  float beta1 = 0, beta2 = 0;
  float one_minus_beta1 = 0, one_minus_beta2 = 0;
  float weight_decay = 0;
  float shrink = 1;
  float rate = 0;
  float root_scale = 1;
  float epsilon = 0;
};

// The steps of optimizer_adaptive.cc. `state` is what divides the move, or the
// momentum where nothing does; `mean` is the running mean of gradients.
struct AdaptiveStep {
  const float* p = nullptr;
  const float* g = nullptr;
  const float* state = nullptr;
  const float* mean = nullptr;
  const float* velocity = nullptr;
  float* p_out = nullptr;
  float* state_out = nullptr;
  float* mean_out = nullptr;
  float* velocity_out = nullptr;
  float clip = 1;
  float weight_decay = 0;
  float keep = 0, take = 1;  // factors of the state and of the new number
  float blend_keep = 0, blend_take = 1;
  float momentum = 0;
  float shrink = 1;
  float rate = 0;
  float epsilon = 0;
};

}  // namespace gpupool::engine
