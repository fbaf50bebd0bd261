// Checks the names of classes that a version is served with.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Most bytes of all labels of a version, which are stored with it.
inline constexpr uint64_t kMaxLabelBytes = 64 << 10;
// Most labels of an output.
inline constexpr int kMaxLabels = 1 << 14;
// Most outputs with labels.
inline constexpr int kMaxLabelledOutputs = 128;

// Checks the numbers, the bytes and the names of the outputs. InvalidArgument
// begins with `field` and has the value and the limit.
absl::Status CheckLabels(absl::string_view field,
                         const v1::ServingOptions& options);

}  // namespace gpupool::server
