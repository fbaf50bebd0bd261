// Shorthands for writing ONNX models in libonnx's text format.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {

// A model whose input x float32 [2] and output y float32 [] frame `nodes`,
// which have to write y.
inline std::string ModelOfNodes(const std::string& nodes) {
  return ModelOfGraph(
             absl::StrCat("(float[2] x) => (float[N] y) {", nodes, "}"))
      .SerializeAsString();
}

// `count` times `line` with every $ replaced by 0, 1, 2, ... and every % by
// the number before that.
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
