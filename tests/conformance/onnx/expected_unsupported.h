// The official cases of ONNX 1.12 that are known to fail, each with the reason.
// With these cases the suite fails when one of them passes, because users are
// shown this list. Other versions of a case may be right where this one is not.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// Returns the reason why the case does not work, or "" if it must work.
absl::string_view WhyUnsupported(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
