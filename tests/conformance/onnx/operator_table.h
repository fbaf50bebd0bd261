// Makes the page docs/operators.md from the tables of operators and ops and
// from the survey of the official cases.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace gpupool::engine::onnx_import {

// Returns the whole page. The status is that of SurveyOperators.
absl::StatusOr<std::string> OperatorsPage();

}  // namespace gpupool::engine::onnx_import
