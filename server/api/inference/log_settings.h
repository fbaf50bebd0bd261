// The protocol's log settings as the level of the server's log:
//
//   log_verbose_level  1 if debug is logged, else 0; any number above 0 sets 1
//   log_info, log_warning, log_error   whether this severity is logged
//   log_format         as LogControl::Format; it cannot be changed
//   log_file           "", which is standard error; it cannot be changed
//
// A severity is never logged without those above it, so
//   * turning one on turns on those above it,
//   * turning one off turns off those below it.
//
// Thread-safety: any thread. Of two changes at a time, one wins.
#pragma once

#include "absl/status/status.h"
#include "inference/grpc_service.pb.h"
#include "server/api/inference/log_control.h"

namespace gpupool::server {

// Applies the settings of `request`, all or none, and fills in those that are
// then in force.
//   * Unimplemented: a log file, or another format than the present one
//   * InvalidArgument: an unknown setting, a value of another type, or a
//     severity that is on with one above it off
absl::Status AnswerLogSettings(const inference::LogSettingsRequest& request,
                               LogControl* log,
                               inference::LogSettingsResponse* response);

}  // namespace gpupool::server
