// Helper functions for models in libonnx's text format.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {

// Returns a model with input x float32 [2], output y float32 [] and `nodes`,
// which must write y.
inline std::string ModelOfNodes(const std::string& nodes) {
  return ModelOfGraph(
             absl::StrCat("(float[2] x) => (float[N] y) {", nodes, "}"))
      .SerializeAsString();
}

// Repeats `line` `count` times. Replaces every $ by 0, 1, 2, ... and every % by
// the previous number.
inline std::string Repeat(int count, const std::string& line) {
  std::string text;
  for (int i = 1; i <= count; ++i) {
    for (const char c : line) {
      if (c == '$') {
        absl::StrAppend(&text, i);
      } else if (c == '%') {
        absl::StrAppend(&text, i - 1);
      } else {
        text += c;
      }
    }
  }
  return text;
}

}  // namespace gpupool::engine::onnx_import
