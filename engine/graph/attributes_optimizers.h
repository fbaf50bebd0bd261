// The optimizers: what the steps of each carry, the state that they keep and
// their formulas, as in PyTorch's torch/optim where nothing else is said. Plain
// values.
//
// With g the gradient after clipping, p the parameter, lr the learning rate, wd
// the weight decay and t the step from 1. States begin as zeros.
#pragma once

#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpupool::engine {

// Each optimizer has
//   clip      whether the last input of its nodes is the clip coefficient
//   states()  the names of its states, tensors like the parameter, behind the
//             parameter's name and in the order of the node's inputs
//   Fields    calls visit(name, field) for each field. The name is the field's
//             in the job's message, if it is there.

// g += wd p; v = m v + (1 - dampening) g (first: v = g);
// p -= lr (nesterov ? g + m v : v)
struct SgdAttributes {
  double momentum = 0;  // m; 0: no v
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool clip = false;

  std::vector<absl::string_view> states() const {
    if (momentum == 0) return {};
    return {"/momentum"};
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, const Visitor& visit) {
    visit("momentum", self.momentum);
    visit("dampening", self.dampening);
    visit("weight_decay", self.weight_decay);
    visit("nesterov", self.nesterov);
    visit("clip", self.clip);
  }
  friend bool operator==(const SgdAttributes&, const SgdAttributes&) = default;
};

// g += wd p (AdamW: p *= 1 - lr wd); m = b1 m + (1 - b1) g;
// v = b2 v + (1 - b2) g^2;
// p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon)
struct AdamAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW
  bool clip = false;

  std::vector<absl::string_view> states() const {
    return {"/adam.m", "/adam.v"};
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, const Visitor& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("epsilon", self.epsilon);
    visit("weight_decay", self.weight_decay);
    visit("decoupled", self.decoupled);
    visit("clip", self.clip);
  }
  friend bool operator==(const AdamAttributes&,
                         const AdamAttributes&) = default;
};

// g += wd p; v = a v + (1 - a) g^2;
// centered: mean = a mean + (1 - a) g, and v - mean^2 in place of v below;
// s = g / (sqrt(v) + epsilon); momentum: b = m b + s in place of s; p -= lr s
struct RmspropAttributes {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;  // m; 0: no b
  bool centered = false;
  bool clip = false;

  std::vector<absl::string_view> states() const {
    std::vector<absl::string_view> names = {"/rmsprop.v"};
    if (centered) names.push_back("/rmsprop.mean");
    if (momentum != 0) names.push_back("/rmsprop.momentum");
    return names;
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, const Visitor& visit) {
    visit("alpha", self.alpha);
    visit("epsilon", self.epsilon);
    visit("weight_decay", self.weight_decay);
    visit("momentum", self.momentum);
    visit("centered", self.centered);
    visit("clip", self.clip);
  }
  friend bool operator==(const RmspropAttributes&,
                         const RmspropAttributes&) = default;
};

// g += wd p; sum += g^2;
// p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(sum) + epsilon)
struct AdagradAttributes {
  double lr_decay = 0;
  double epsilon = 1e-10;
  double weight_decay = 0;
  bool clip = false;

  std::vector<absl::string_view> states() const { return {"/adagrad.sum"}; }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, const Visitor& visit) {
    visit("lr_decay", self.lr_decay);
    visit("epsilon", self.epsilon);
    visit("weight_decay", self.weight_decay);
    visit("clip", self.clip);
  }
  friend bool operator==(const AdagradAttributes&,
                         const AdagradAttributes&) = default;
};

// p *= 1 - lr wd; p -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g
// (Chen et al. 2023, arXiv 2302.06675, algorithm 2)
struct LionAttributes {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool clip = false;

  std::vector<absl::string_view> states() const { return {"/lion.m"}; }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, const Visitor& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("weight_decay", self.weight_decay);
    visit("clip", self.clip);
  }
  friend bool operator==(const LionAttributes&,
                         const LionAttributes&) = default;
};

// g += wd p; m = b1 m + (1 - b1) g; u = max(b2 u, |g| + epsilon);
// p -= lr / (1 - b1^t) m / u   (Kingma and Ba 2014, arXiv 1412.6980, section 7)
struct AdamaxAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool clip = false;

  std::vector<absl::string_view> states() const {
    return {"/adamax.m", "/adamax.u"};
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, const Visitor& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("epsilon", self.epsilon);
    visit("weight_decay", self.weight_decay);
    visit("clip", self.clip);
  }
  friend bool operator==(const AdamaxAttributes&,
                         const AdamaxAttributes&) = default;
};

using OptimizerAttributes =
    std::variant<SgdAttributes, AdamAttributes, RmspropAttributes,
                 AdagradAttributes, LionAttributes, AdamaxAttributes>;

}  // namespace gpupool::engine
