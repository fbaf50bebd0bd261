// Makes the error of an import that needs numbers of the model's inputs. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// Returns FAILED_PRECONDITION that names the inputs in its text and in its
// payload, where NeededInputs (onnx_import.h) finds them.
absl::Status NeedsInputs(absl::string_view title, absl::string_view what,
                         const std::vector<std::string>& inputs);

}  // namespace gpupool::engine::onnx_import
