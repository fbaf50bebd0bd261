#include "tests/engine/backends/portable/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/print.h"
#include "engine/graph/verify.h"
#include "engine/tensor/convert.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::testing {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

void ExpectSame(const NamedNumbers& got, const NamedNumbers& wanted,
                double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, numbers] : wanted) {
    EXPECT_LE(ErrorOf(got.at(name), numbers), tolerance) << name;
  }
}

// What stays float32 beside 16-bit operands; invalid when there is none.
ValueId LogSumOf(const Graph& graph) {
  const Node& node = graph.nodes()[0];
  return node.op == Op::kAttentionGrad ? node.inputs[5] : ValueId{};
}

}  // namespace

double ErrorOf(const Numbers& got, const Numbers& wanted) {
  if (got.size() != wanted.size()) return HUGE_VAL;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    if (got[i] == wanted[i]) continue;
    if (std::isfinite(wanted[i])) {
      largest = std::max(largest, std::abs(wanted[i]));
    }
    const double here = std::abs(got[i] - wanted[i]);
    if (std::isnan(here)) return HUGE_VAL;
    difference = std::max(difference, here);
  }
  return difference / (1 + largest);
}

void ExpectAgreement(const OpCase& made, double tolerance,
                     DeviceBackend& backend, CachingAllocator* allocator) {
  OpCase at = made;
  SCOPED_TRACE(::testing::Message() << Print(at.graph()));
  ASSERT_TRUE(Verify(at.graph()).ok()) << Verify(at.graph());
  NamedNumbers wanted_state = at.persistents;
  NamedNumbers got_state = at.persistents;
  const auto wanted = reference::Run(at.graph(), at.inputs, wanted_state,
                                     {.round_to_dtype = true});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const auto got =
      RunNodes(backend, at.graph(), at.inputs, got_state, allocator);
  if (got.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << got.status().message();
  }
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectSame(*got, *wanted, tolerance);
  ExpectSame(got_state, wanted_state, tolerance);
}

bool ChangeFloats(OpCase& at, DType dtype) {
  Graph& graph = at.graph();
  const ValueId lse = SizeOf(dtype) == 2 ? LogSumOf(graph) : ValueId{};
  const auto change = [&](Value& value, NamedNumbers& numbers) {
    if (value.dtype != DType::kFloat32 || value.id == lse) return;
    value.dtype = dtype;
    for (double& x : numbers.at(value.name)) x = RoundToDType(dtype, x);
  };
  for (size_t i = 0; i < graph.values().size(); ++i) {
    Value& value = graph.mutable_value(ValueId{static_cast<int32_t>(i)});
    if (value.kind == ValueKind::kInput) change(value, at.inputs);
    if (value.kind == ValueKind::kPersistent) change(value, at.persistents);
  }
  for (const Node& node : graph.nodes()) {
    const auto types =
        InferTypes(node.op, node.attributes, graph.InputTypes(node));
    if (!types.ok()) return false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph.mutable_value(node.outputs[i]).dtype = (*types)[i].dtype;
    }
  }
  return true;
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 1.2e-2;
    case DType::kFloat16:
      return 1.5e-3;
    case DType::kFloat64:
      return 1e-12;
    default:
      return 2e-7;
  }
}

}  // namespace gpupool::engine::testing
