// The numbers of training.mix, which the daemon and the engine check. Pure.
#pragma once

#include <tuple>

#include "absl/status/status.h"
#include "engine/base/job_limits.h"
#include "engine/base/refuse.h"

namespace gpupool::engine {

// Checks each number of training.mix by itself. INVALID_ARGUMENT names the
// field, the value and the limit. `Mix` is the message, which this library does
// not know.
template <typename Mix>
absl::Status CheckMixNumbers(const Mix& mix) {
  for (const auto& [field, given, alpha] :
       {std::tuple("mixup_alpha", mix.has_mixup_alpha(), mix.mixup_alpha()),
        std::tuple("cutmix_alpha", mix.has_cutmix_alpha(),
                   mix.cutmix_alpha())}) {
    if (!given || (alpha > 0 && alpha <= kMaxMixAlpha)) continue;
    return Refuse("training.mix.", field, " is ", alpha,
                  "; it must be above 0 and at most ", kMaxMixAlpha);
  }
  for (const auto& [field, given, share] :
       {std::tuple("probability", mix.has_probability(), mix.probability()),
        std::tuple("switch_probability", mix.has_switch_probability(),
                   mix.switch_probability())}) {
    if (!given || (share >= 0 && share <= 1)) continue;
    return Refuse("training.mix.", field, " is ", share,
                  "; it must be from 0 to 1");
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
