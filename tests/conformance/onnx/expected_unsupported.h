// The official cases that are known to fail, each with the reason. The suite
// fails when one of them passes, because users are shown this list.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// Returns the reason why the case does not work, or "" if it must work.
absl::string_view WhyUnsupported(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
