// Rules of movement and indexing.
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

Result Transpose(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Slice(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result SliceGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Pad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result PadGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Concat(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Gather(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result GatherGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result GatherElements(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result GatherNd(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result ScatterElements(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result ScatterNd(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result TopK(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Random(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result Resize(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

Result ResizeGrad(Op op, const Attributes&, Inputs) {
  return Refuse(op, "is not there yet");
}

}  // namespace gpupool::engine::type_rules
