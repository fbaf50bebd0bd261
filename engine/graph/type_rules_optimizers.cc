// Rules of optimizer steps and running averages.
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

Result OptimizerStep(Op op, const Attributes& attributes, Inputs inputs) {
  const OptimizerAttributes optimizer = OptimizerOf(attributes);
  const size_t states =
      std::visit([](const auto& a) { return a.states().size(); }, optimizer);
  const bool clip = std::visit([](const auto& a) { return a.clip; }, optimizer);
  const TensorType& parameter = inputs[0];
  RETURN_IF_ERROR(CheckFloating(op, parameter));
  if (inputs.size() != 4 + states + clip) {
    return Refuse(op, "has ", inputs.size(), " inputs instead of ",
                  4 + states + clip);
  }
  RETURN_IF_ERROR(CheckType(op, "gradient", inputs[1], parameter));
  RETURN_IF_ERROR(
      CheckType(op, "learning_rate", inputs[2], {DType::kFloat64, {}}));
  RETURN_IF_ERROR(CheckType(op, "step", inputs[3], {DType::kInt64, {}}));
  for (const TensorType& state : inputs.subspan(4, states)) {
    RETURN_IF_ERROR(CheckType(op, "state", state, parameter));
  }
  if (clip) {
    RETURN_IF_ERROR(
        CheckType(op, "clip", inputs.back(), {DType::kFloat32, {}}));
  }
  return TensorTypes(1 + states, parameter);
}

Result EmaUpdate(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckType(op, "parameter", inputs[1], inputs[0]));
  return TensorTypes{inputs[0]};
}

}  // namespace gpupool::engine::type_rules
