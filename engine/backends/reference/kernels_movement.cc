// Movement and indexing.
#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {

void Transpose(const Operands&) {}
void Slice(const Operands&) {}
void SliceGrad(const Operands&) {}
void Pad(const Operands&) {}
void PadGrad(const Operands&) {}
void Concat(const Operands&) {}
void TopK(const Operands&) {}
void Random(const Operands&) {}
void Resize(const Operands&) {}
void ResizeGrad(const Operands&) {}
absl::Status Gather(const Operands&) {
  return absl::UnimplementedError("not there yet");
}
absl::Status GatherGrad(const Operands&) {
  return absl::UnimplementedError("not there yet");
}
absl::Status GatherElements(const Operands&) {
  return absl::UnimplementedError("not there yet");
}
absl::Status GatherNd(const Operands&) {
  return absl::UnimplementedError("not there yet");
}
absl::Status ScatterElements(const Operands&) {
  return absl::UnimplementedError("not there yet");
}
absl::Status ScatterNd(const Operands&) {
  return absl::UnimplementedError("not there yet");
}

}  // namespace gpupool::engine::reference
