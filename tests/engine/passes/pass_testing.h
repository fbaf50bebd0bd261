// A small graph under construction for the tests of single passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/builder.h"
#include "engine/graph/print.h"
#include "engine/graph/verify.h"

namespace gpupool::engine::testing {

class PassTest : public ::testing::Test {
 protected:
  static TensorType F(const Shape& shape) { return {DType::kFloat32, shape}; }

  ValueId Input(const std::string& name, const Shape& shape) {
    return *builder_.Input(name, F(shape));
  }
  ValueId Weight(const std::string& name, const Shape& shape) {
    return *builder_.Persistent(name, F(shape), MemoryClass::kWeight);
  }
  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    auto result = builder_.EmitOne(op, inputs, std::move(attributes));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : ValueId{};
  }

  // Runs a pass and checks the graph.
  void Run(absl::Status (*pass)(Graph&)) {
    const absl::Status status = pass(graph_);
    ASSERT_TRUE(status.ok()) << status;
    graph_.Compact();
    ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_) << Print(graph_);
  }

  std::vector<std::string> Ops() const {
    std::vector<std::string> ops;
    for (const Node& node : graph_.nodes()) {
      ops.push_back(std::string(OpName(node.op)));
    }
    return ops;
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
};

}  // namespace gpupool::engine::testing
