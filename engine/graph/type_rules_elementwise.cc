// Rules of elementwise ops with broadcasting, reductions and casts.
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

Result UnaryOp(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result BinaryOp(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Where(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Cast(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Fused(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Reduce(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result ArgReduce(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result CumSum(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Broadcast(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result UnaryGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

}  // namespace gpupool::engine::type_rules
