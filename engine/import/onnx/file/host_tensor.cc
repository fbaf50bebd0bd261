#include "engine/import/onnx/file/host_tensor.h"

#include <cmath>
#include <limits>

namespace gpupool::engine::onnx_import {
namespace {

int64_t Saturated(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x <= -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

}  // namespace

std::vector<int64_t> HostTensor::Integers() const {
  std::vector<int64_t> integers;
  integers.reserve(numbers.size());
  for (double x : numbers) integers.push_back(Saturated(x));
  return integers;
}

}  // namespace gpupool::engine::onnx_import
