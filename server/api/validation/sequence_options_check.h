// Checks the options of serving sequences that do not depend on the model.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Most sequences that a version works on at a time.
inline constexpr uint32_t kMaxSequences = 1 << 16;
// Longest time without a request: one day.
inline constexpr uint64_t kMaxIdleMicroseconds = 86'400'000'000;
// Most controls of a version, and most states.
inline constexpr int kMaxSequenceTensors = 128;
// Most bytes of all initial states of a version, which are stored with it.
inline constexpr uint64_t kMaxInitialStateBytes = 64 << 10;

// InvalidArgument begins with `field` and has the value and the limit.
absl::Status CheckSequenceOptions(absl::string_view field,
                                  const v1::SequenceOptions& options);

}  // namespace gpupool::server
