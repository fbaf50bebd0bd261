// Short names for the tests of the type rules.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/graph/ops.h"

namespace gpupool::engine {

inline TensorType F(const Shape& shape) { return {DType::kFloat32, shape}; }
inline TensorType I64(const Shape& shape) { return {DType::kInt64, shape}; }
// Returns a shape that may have no elements.
inline Shape Empty(const std::vector<int64_t>& dims) {
  return *Shape::CreateMaybeEmpty(dims);
}

// Returns the outputs' types, or none after a failure.
inline TensorTypes Types(Op op, const Attributes& attributes,
                         const TensorTypes& inputs) {
  auto types = InferTypes(op, attributes, inputs);
  EXPECT_TRUE(types.ok()) << types.status();
  return types.ok() ? *types : TensorTypes(4);
}

// Returns the only output's type.
inline TensorType Only(Op op, const Attributes& attributes,
                       const TensorTypes& inputs) {
  const TensorTypes types = Types(op, attributes, inputs);
  EXPECT_EQ(types.size(), 1u);
  return types.front();
}

// Returns the text of an InvalidArgument.
inline std::string Error(Op op, const Attributes& attributes,
                         const TensorTypes& inputs) {
  const auto types = InferTypes(op, attributes, inputs);
  EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(types.status().message());
}

}  // namespace gpupool::engine
