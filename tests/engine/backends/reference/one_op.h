// Runs one op on given numbers, for the tests of the reference kernels.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::reference {

struct Operand {
  TensorType type;
  Numbers numbers;
};

inline Operand F(const Shape& shape, Numbers numbers) {
  return {{DType::kFloat32, shape}, std::move(numbers)};
}
inline Operand I(const Shape& shape, Numbers numbers) {
  return {{DType::kInt64, shape}, std::move(numbers)};
}

// Returns the outputs, or the first error.
inline absl::StatusOr<std::vector<Numbers>> TryRunOp(
    Op op, const Attributes& attributes, const std::vector<Operand>& operands) {
  Graph graph;
  GraphBuilder builder(&graph);
  ValueIds inputs;
  NamedNumbers numbers;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = absl::StrCat("x", i);
    inputs.push_back(*builder.Input(name, operands[i].type));
    numbers[name] = operands[i].numbers;
  }
  auto outputs = builder.Emit(op, inputs, attributes);
  if (!outputs.ok()) return outputs.status();
  for (ValueId id : *outputs) graph.AddOutput(graph.value(id).name, id);
  NamedNumbers none;
  auto results = Run(graph, numbers, none);
  if (!results.ok()) return results.status();
  std::vector<Numbers> list;
  for (ValueId id : *outputs) list.push_back((*results)[graph.value(id).name]);
  return list;
}

inline std::vector<Numbers> RunOp(Op op, const Attributes& attributes,
                                  const std::vector<Operand>& operands) {
  auto outputs = TryRunOp(op, attributes, operands);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *outputs : std::vector<Numbers>(4);
}

}  // namespace gpupool::engine::reference
