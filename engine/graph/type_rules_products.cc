// Rules of batched products, attention and response normalisation.
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

Result BatchMatMul(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Attention(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result AttentionGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Lrn(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result LrnGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

}  // namespace gpupool::engine::type_rules
