// The page docs/operators.md, made from the tables of operators and ops and
// from what the official cases show.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace gpupool::engine::onnx_import {

// The whole page. The status is that of SurveyOperators.
absl::StatusOr<std::string> OperatorsPage();

}  // namespace gpupool::engine::onnx_import
