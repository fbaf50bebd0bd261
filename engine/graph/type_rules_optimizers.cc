// Rules of the optimizers beyond SGD and Adam.
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

Result RmspropStep(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result AdagradStep(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result LionStep(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result EmaUpdate(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

}  // namespace gpupool::engine::type_rules
