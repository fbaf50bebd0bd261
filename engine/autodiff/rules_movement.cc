// Gradients of movement and indexing.
#include "engine/autodiff/rules.h"

namespace gpupool::engine::autodiff {

absl::Status MovementRule(RuleContext&) {
  return absl::UnimplementedError("not there yet");
}

}  // namespace gpupool::engine::autodiff
