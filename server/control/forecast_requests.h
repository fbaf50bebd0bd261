// When a job that is only planned would start.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include "server/control/context.h"

namespace gpupool::server {

// Answers with `response` and its `start`. Nothing is stored.
void AnswerWithForecast(const ControlContext& context, const v1::JobSpec& spec,
                        v1::PlanJobResponse response,
                        ControlLoop::Callback<v1::PlanJobResponse> callback);

}  // namespace gpupool::server
