#include "tests/conformance/onnx/expected_unsupported.h"

namespace gpupool::engine::onnx_import {
namespace {

struct Row {
  absl::string_view name;
  absl::string_view reason;
};

constexpr absl::string_view kStrings = "strings";

constexpr Row kRows[] = {
    {"test_cast_FLOAT_to_STRING", kStrings},
};

}  // namespace

absl::string_view WhyUnsupported(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.reason;
  }
  return "";
}

}  // namespace gpupool::engine::onnx_import
