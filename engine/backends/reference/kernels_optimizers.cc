// Optimizers except SGD and Adam.
#include <algorithm>
#include <cmath>

#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// Returns the gradient after clipping.
double Gradient(const Operands& o, bool clip, size_t i) {
  return clip ? o.in(1)[i] * o.inputs.back()[0] : o.in(1)[i];
}

}  // namespace

bool KeepsEverything(const Operands& o, bool clip) {
  if (!clip || !std::isnan(o.inputs.back()[0])) return false;
  for (size_t i = 0; i < o.outputs.size(); ++i) {
    // Inputs are p, g, learning rate, step and then the states.
    const absl::Span<const double> old = o.in(i == 0 ? 0 : 3 + i);
    std::copy(old.begin(), old.end(), o.out(i).begin());
  }
  return true;
}

// Computes torch.optim.RMSprop.
void RmspropStep(const Operands& o) {
  const auto& rmsprop = o.node.get<RmspropAttributes>();
  if (KeepsEverything(o, rmsprop.clip)) return;
  const double rate = o.in(2)[0];
  const size_t momentum = rmsprop.centered ? 6 : 5;  // index of the input
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    const double p = o.in(0)[i];
    const double g = Gradient(o, rmsprop.clip, i) + rmsprop.weight_decay * p;
    const double v = rmsprop.alpha * o.in(4)[i] + (1 - rmsprop.alpha) * g * g;
    o.out(1)[i] = v;
    double square = v;
    if (rmsprop.centered) {
      const double mean = rmsprop.alpha * o.in(5)[i] + (1 - rmsprop.alpha) * g;
      o.out(2)[i] = mean;
      square = v - mean * mean;
    }
    double move = g / (std::sqrt(square) + rmsprop.epsilon);
    if (rmsprop.momentum != 0) {
      move += rmsprop.momentum * o.in(momentum)[i];
      o.out(momentum - 3)[i] = move;
    }
    o.out(0)[i] = p - rate * move;
  }
}

// Computes torch.optim.Adagrad.
void AdagradStep(const Operands& o) {
  const auto& adagrad = o.node.get<AdagradAttributes>();
  if (KeepsEverything(o, adagrad.clip)) return;
  const double rate = o.in(2)[0] / (1 + (o.in(3)[0] - 1) * adagrad.lr_decay);
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    const double p = o.in(0)[i];
    const double g = Gradient(o, adagrad.clip, i) + adagrad.weight_decay * p;
    const double sum = o.in(4)[i] + g * g;
    o.out(0)[i] = p - rate * g / (std::sqrt(sum) + adagrad.epsilon);
    o.out(1)[i] = sum;
  }
}

// Lion (Chen et al. 2023, arXiv 2302.06675, algorithm 2).
void LionStep(const Operands& o) {
  const auto& lion = o.node.get<LionAttributes>();
  if (KeepsEverything(o, lion.clip)) return;
  const double rate = o.in(2)[0];
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    const double g = Gradient(o, lion.clip, i);
    const double m = o.in(4)[i];
    const double blend = lion.beta1 * m + (1 - lion.beta1) * g;
    const double sign = blend > 0 ? 1 : (blend < 0 ? -1 : 0);
    o.out(0)[i] = o.in(0)[i] * (1 - rate * lion.weight_decay) - rate * sign;
    o.out(1)[i] = lion.beta2 * m + (1 - lion.beta2) * g;
  }
}

void EmaUpdate(const Operands& o) {
  const double decay = o.node.get<EmaAttributes>().decay;
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out()[i] = decay * o.in(0)[i] + (1 - decay) * o.in(1)[i];
  }
}

}  // namespace gpupool::engine::reference
