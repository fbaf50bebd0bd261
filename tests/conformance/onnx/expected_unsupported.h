// The official cases that are known not to work, each with the reason. The
// suite fails when one of them works: the list is what users are told.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// The reason why the case does not work; empty when it must.
absl::string_view WhyUnsupported(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
