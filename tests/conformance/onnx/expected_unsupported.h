// The official cases of ONNX 1.12 and 1.17 that are known to fail, each with
// the reason. With the cases of 1.12 the suite fails when one of them passes,
// because users are shown this list. Other versions of a case may be right
// where these are not.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// Returns the reason why the case does not work, or "" if it must work.
absl::string_view WhyUnsupported(absl::string_view name);

// Returns whether a case of versions after ONNX 1.12 expects numbers that do
// not follow from its inputs within the tolerance.
bool IsInexactWhenNewer(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
