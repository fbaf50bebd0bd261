// Optimizer steps, by the formulas of engine/graph/attributes_optimizers.h, and
// running averages.
#include <algorithm>
#include <cmath>

#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// Returns the gradient after clipping.
double Gradient(const Operands& o, bool clip, size_t i) {
  return clip ? o.in(1)[i] * o.inputs.back()[0] : o.in(1)[i];
}

// Returns whether the clip coefficient is given and NaN. If so, copies the
// parameter and the states to the outputs unchanged.
bool KeepsEverything(const Operands& o, bool clip) {
  if (!clip || !std::isnan(o.inputs.back()[0])) return false;
  for (size_t i = 0; i < o.outputs.size(); ++i) {
    // Inputs are p, g, learning rate, step and then the states.
    const absl::Span<const double> old = o.in(i == 0 ? 0 : 3 + i);
    std::copy(old.begin(), old.end(), o.out(i).begin());
  }
  return true;
}

// Computes torch.optim.SGD. The velocity of the first step is the gradient.
void Step(const SgdAttributes& sgd, const Operands& o) {
  const double rate = o.in(2)[0];
  const bool first = o.in(3)[0] <= 1;
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    const double p = o.in(0)[i];
    double g = Gradient(o, sgd.clip, i) + sgd.weight_decay * p;
    if (sgd.momentum != 0) {
      const double v =
          first ? g : sgd.momentum * o.in(4)[i] + (1 - sgd.dampening) * g;
      g = sgd.nesterov ? g + sgd.momentum * v : v;
      o.out(1)[i] = v;
    }
    o.out(0)[i] = p - rate * g;
  }
}

// Computes torch.optim.Adam and AdamW.
void Step(const AdamAttributes& adam, const Operands& o) {
  const double rate = o.in(2)[0];
  const double step = o.in(3)[0];
  const double correction1 = 1 - std::pow(adam.beta1, step);
  const double correction2 = std::sqrt(1 - std::pow(adam.beta2, step));
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    double p = o.in(0)[i];
    double g = Gradient(o, adam.clip, i);
    if (adam.decoupled) {
      p *= 1 - rate * adam.weight_decay;
    } else {
      g += adam.weight_decay * p;
    }
    const double m = adam.beta1 * o.in(4)[i] + (1 - adam.beta1) * g;
    const double v = adam.beta2 * o.in(5)[i] + (1 - adam.beta2) * g * g;
    o.out(0)[i] = p - rate / correction1 * m /
                          (std::sqrt(v) / correction2 + adam.epsilon);
    o.out(1)[i] = m;
    o.out(2)[i] = v;
  }
}

// Computes torch.optim.RMSprop.
void Step(const RmspropAttributes& rmsprop, const Operands& o) {
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
void Step(const AdagradAttributes& adagrad, const Operands& o) {
  const double rate = o.in(2)[0] / (1 + (o.in(3)[0] - 1) * adagrad.lr_decay);
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    const double p = o.in(0)[i];
    const double g = Gradient(o, adagrad.clip, i) + adagrad.weight_decay * p;
    const double sum = o.in(4)[i] + g * g;
    o.out(0)[i] = p - rate * g / (std::sqrt(sum) + adagrad.epsilon);
    o.out(1)[i] = sum;
  }
}

// Computes Lion (Chen et al. 2023, arXiv 2302.06675, algorithm 2).
void Step(const LionAttributes& lion, const Operands& o) {
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

// Computes torch.optim.Adamax.
void Step(const AdamaxAttributes& adamax, const Operands& o) {
  const double rate = o.in(2)[0] / (1 - std::pow(adamax.beta1, o.in(3)[0]));
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    const double p = o.in(0)[i];
    const double g = Gradient(o, adamax.clip, i) + adamax.weight_decay * p;
    const double m = adamax.beta1 * o.in(4)[i] + (1 - adamax.beta1) * g;
    const double u =
        std::max(std::abs(g) + adamax.epsilon, adamax.beta2 * o.in(5)[i]);
    o.out(0)[i] = p - rate * m / u;
    o.out(1)[i] = m;
    o.out(2)[i] = u;
  }
}

}  // namespace

void OptimizerStep(const Operands& o) {
  std::visit(
      [&o](const auto& optimizer) {
        if (!KeepsEverything(o, optimizer.clip)) Step(optimizer, o);
      },
      OptimizerOf(o.node.attributes));
}

void EmaUpdate(const Operands& o) {
  const double decay = o.node.get<EmaAttributes>().decay;
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out()[i] = decay * o.in(0)[i] + (1 - decay) * o.in(1)[i];
  }
}

}  // namespace gpupool::engine::reference
