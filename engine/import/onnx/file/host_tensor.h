// A tensor whose numbers are known while an ONNX model is imported. A plain
// value.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine::onnx_import {

// A tensor whose numbers are known while importing. Integers are exact up to
// 2^53. Larger ones saturate when they are used as sizes or positions.
struct HostTensor {
  DType dtype = DType::kFloat32;
  Shape shape;  // may be empty (a dimension of 0)
  std::vector<double> numbers;

  // Returns the numbers as int64, saturated. NaN becomes 0.
  std::vector<int64_t> Integers() const;
};

}  // namespace gpupool::engine::onnx_import
