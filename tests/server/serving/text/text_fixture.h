// Tensors of texts and numbers for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

inline TextTensor TextsOf(std::vector<absl::string_view> texts,
                          std::vector<int64_t> shape) {
  TextTensor tensor;
  tensor.type = v1::STRING;
  tensor.shape = std::move(shape);
  tensor.texts = std::move(texts);
  return tensor;
}

inline TextTensor IntegersOf(std::vector<int64_t> numbers,
                             std::vector<int64_t> shape,
                             v1::DataType type = v1::INT64) {
  TextTensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.integers = std::move(numbers);
  return tensor;
}

inline TextTensor FloatsOf(std::vector<double> numbers,
                           std::vector<int64_t> shape,
                           v1::DataType type = v1::FLOAT32) {
  TextTensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.floats = std::move(numbers);
  return tensor;
}

}  // namespace gpupool::server
