// Gradients of elementwise ops with broadcasting and of reductions.
#include "engine/autodiff/rules.h"

namespace gpupool::engine::autodiff {

absl::Status ElementwiseRule(RuleContext&) {
  return absl::UnimplementedError("not there yet");
}

}  // namespace gpupool::engine::autodiff
