// The protocol's trace settings as the sampling of the tracer:
//
//   trace_level  TIMESTAMPS if a share of the requests is traced, else OFF.
//                OFF leaves requests traced whose clients trace.
//   trace_rate   N: one of N requests without a client's span
//   trace_mode, trace_file, trace_count, log_frequency   fixed
//
// Thread-safety: any thread. Of two changes at a time, one wins.
#pragma once

#include "absl/status/status.h"
#include "inference/grpc_service.pb.h"
#include "server/serving/router.h"
#include "server/trace/tracer.h"

namespace gpupool::server {

// Applies the settings of `request`, all or none, and fills in those that are
// then in force. Without a rate, TIMESTAMPS traces one of 1,000 requests if
// none was traced before. Errors:
//   * Unimplemented: `tracer` is null; settings of one model; a level of
//     TENSORS; another value of a fixed setting
//   * NotFound: `router` knows no version of the model that is or comes ready
//   * InvalidArgument: an unknown setting, or a value of another form
absl::Status AnswerTraceSetting(const inference::TraceSettingRequest& request,
                                const Router& router, Tracer* tracer,
                                inference::TraceSettingResponse* response);

}  // namespace gpupool::server
