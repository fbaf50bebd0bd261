// Graphs over the rows of a batch, for tests: one input, one output, and a
// comparison of what rows say about each other.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/builder.h"
#include "engine/model/layer_spec.h"

namespace gpupool::engine {

class RowGraph {
 public:
  // The input has shape [batch, example...].
  RowGraph(int64_t batch, const Shape& example) : batch_(batch) {
    std::vector<int64_t> dims{batch};
    dims.insert(dims.end(), example.dims().begin(), example.dims().end());
    x_ = *builder().Input("x", {DType::kFloat32, *Shape::Create(dims)});
  }

  int64_t batch() const { return batch_; }
  ValueId x() const { return x_; }
  const Shape& shape(ValueId id) const { return model_.graph.value(id).shape; }
  const ModelGraph& model() const { return model_; }

  ValueIds All(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    GraphBuilder next(&model_.graph);
    next.SetSource(absl::StrCat("node", model_.graph.nodes().size()), 0);
    auto outputs = next.Emit(op, inputs, std::move(attributes));
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *outputs : ValueIds{x_, x_, x_};
  }
  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    return All(op, inputs, std::move(attributes))[0];
  }
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
  }
  ValueId Reshape(ValueId x, const std::vector<int64_t>& dims) {
    return Emit(Op::kReshape, {x}, ShapeAttributes{*Shape::Create(dims)});
  }
  ValueId Transpose(ValueId x, const std::vector<int>& permutation) {
    return Emit(Op::kTranspose, {x}, TransposeAttributes{permutation});
  }
  ValueId Reduce(ValueId x, const std::vector<int>& axes, bool keep = true) {
    return Emit(Op::kReduce, {x},
                ReduceAttributes{ReduceFunction::kMean, axes, keep});
  }
  ValueId Constant(const std::vector<int64_t>& dims,
                   std::vector<double> numbers, DType dtype = DType::kFloat32) {
    return builder().Constant({dtype, *Shape::Create(dims)},
                              std::move(numbers));
  }
  ValueId Weight(const std::string& name, const Shape& shape) {
    return *builder().Persistent(name, {DType::kFloat32, shape},
                                 MemoryClass::kWeight);
  }
  void Output(ValueId y) { model_.graph.AddOutput("y", y); }

  // Computes the output of rows that each begin with another number.
  reference::Numbers Run(const std::vector<double>& rows) const {
    reference::NamedNumbers weights;
    reference::NamedNumbers inputs;
    for (const Value& value : model_.graph.values()) {
      const bool input = value.kind == ValueKind::kInput;
      const auto count = static_cast<size_t>(value.shape.elements());
      const size_t row = input ? count / rows.size() : count;
      reference::Numbers numbers;
      for (size_t i = 0; i < count; ++i) {
        const double seed = input ? rows[i / row] : 1;
        const auto at = static_cast<double>(i % row);
        numbers.push_back(1 + std::sin(seed + 0.7 * at));
      }
      if (input) inputs[value.name] = numbers;
      if (value.kind == ValueKind::kPersistent) weights[value.name] = numbers;
    }
    auto outputs = reference::Run(model_.graph, inputs, weights);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? (*outputs)["y"] : reference::Numbers{};
  }

  // Returns whether a row's output changes when other rows do.
  bool RowsInfluenceEachOther() const {
    std::vector<double> rows;
    for (int64_t i = 0; i < batch_; ++i)
      rows.push_back(3.0 * static_cast<double>(i));
    const reference::Numbers before = Run(rows);
    bool influence = false;
    for (size_t changed = 0; changed < rows.size(); ++changed) {
      std::vector<double> others = rows;
      others[changed] += 100;
      const reference::Numbers after = Run(others);
      const size_t row = before.size() / rows.size();
      for (size_t i = 0; i < before.size(); ++i) {
        if (i / row != changed) influence |= before[i] != after[i];
      }
    }
    return influence;
  }

 private:
  GraphBuilder builder() { return GraphBuilder(&model_.graph); }

  const int64_t batch_;
  ModelGraph model_;
  ValueId x_;
};

}  // namespace gpupool::engine
