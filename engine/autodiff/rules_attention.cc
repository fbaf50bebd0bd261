// Gradients of batched products, attention and response normalisation.
#include "engine/autodiff/rules.h"

namespace gpupool::engine::autodiff {

absl::Status ProductRule(RuleContext&) {
  return absl::UnimplementedError("not there yet");
}

}  // namespace gpupool::engine::autodiff
