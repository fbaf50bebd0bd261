// Rules of the optimizers other than SGD and Adam.
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

Result RmspropStep(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& rmsprop = std::get<RmspropAttributes>(attributes);
  const size_t states = size_t{1} + rmsprop.centered + (rmsprop.momentum != 0);
  return OptimizerStep(op, inputs, states, rmsprop.clip);
}

Result AdagradStep(Op op, const Attributes& attributes, Inputs inputs) {
  return OptimizerStep(op, inputs, 1,
                       std::get<AdagradAttributes>(attributes).clip);
}

Result LionStep(Op op, const Attributes& attributes, Inputs inputs) {
  return OptimizerStep(op, inputs, 1,
                       std::get<LionAttributes>(attributes).clip);
}

Result EmaUpdate(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckType(op, "parameter", inputs[1], inputs[0]));
  return TensorTypes{inputs[0]};
}

}  // namespace gpupool::engine::type_rules
