// Forecasts the start of a job that is only planned.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class JobSpec;
class PlanJobResponse;
}  // namespace gpupool::v1

namespace gpupool::server {

struct ControlContext;

// Answers with `response` and its `start`. Stores nothing.
void AnswerWithForecast(const ControlContext& context, const v1::JobSpec& spec,
                        v1::PlanJobResponse response,
                        Callback<v1::PlanJobResponse> callback);

}  // namespace gpupool::server
