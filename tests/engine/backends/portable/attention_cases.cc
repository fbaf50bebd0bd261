#include "tests/engine/backends/portable/attention_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/builder.h"
#include "engine/tensor/convert.h"
#include "tests/engine/backends/portable/error_of.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::testing {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

constexpr int64_t kBlindQuery = 1;

Shape MaskShape(const AttentionCase& at) {
  const AttentionSizes& s = at.sizes;
  const int64_t full[] = {s.batch, s.heads, s.queries, s.keys};
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < 4; ++axis) {
    dims.push_back(at.mask[axis] == '1' ? 1 : full[axis]);
  }
  return *Shape::Create(dims);
}

Numbers RandomOf(const Value& value, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  Numbers numbers(static_cast<size_t>(value.shape.elements()));
  for (double& x : numbers) x = RoundToDType(value.dtype, uniform(random));
  return numbers;
}

// Hides a third of the numbers. All queries except the blind one see the first
// key, because with the causal rule the first query sees only that key.
void Hide(const AttentionCase& at, const Shape& shape, std::mt19937& random,
          Numbers& mask) {
  std::uniform_int_distribution<int> third(0, 2);
  const int64_t keys = shape[3], queries = shape[2];
  for (size_t i = 0; i < mask.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    const int64_t key = position % keys, query = position / keys % queries;
    const bool blind = at.blind && queries > 1 && query == kBlindQuery;
    const bool hidden = keys > 1 && key > 0 && third(random) == 0;
    if (blind || hidden) mask[i] = -HUGE_VAL;
  }
}

NamedNumbers InputsOf(const AttentionCase& at, const Graph& graph) {
  std::mt19937 random(3);
  NamedNumbers inputs;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::kInput) continue;
    Numbers numbers = RandomOf(value, random);
    if (value.name == "mask") Hide(at, value.shape, random, numbers);
    inputs[value.name] = std::move(numbers);
  }
  return inputs;
}

// Expects exact zeros and -infinity for a query that sees no key.
void ExpectBlind(const AttentionCase& at, const NamedNumbers& got) {
  const AttentionSizes& s = at.sizes;
  for (int64_t matrix = 0; matrix < s.batch * s.heads; ++matrix) {
    const int64_t row = matrix * s.queries + kBlindQuery;
    EXPECT_EQ(got.at("lse")[static_cast<size_t>(row)], -HUGE_VAL);
    for (int64_t e = 0; e < s.width; ++e) {
      EXPECT_EQ(got.at("y")[static_cast<size_t>(row * s.width + e)], 0);
    }
    for (int64_t d = 0; d < s.depth; ++d) {
      EXPECT_EQ(got.at("dq")[static_cast<size_t>(row * s.depth + d)], 0);
    }
  }
}

}  // namespace

std::string AttentionCase::Text() const {
  return absl::StrCat(
      DTypeName(type), " ", sizes.queries, "x", sizes.keys, " heads of ",
      sizes.depth, " and ", sizes.width, causal ? " causal" : "",
      mask.empty() ? "" : absl::StrCat(" mask ", mask), blind ? " blind" : "");
}

Graph AttentionGraph(const AttentionCase& at) {
  const AttentionSizes& s = at.sizes;
  Graph graph;
  GraphBuilder builder(&graph);
  const auto input = [&](const char* name, int64_t rows, int64_t columns) {
    return *builder.Input(name, {at.type, {s.batch, s.heads, rows, columns}});
  };
  const ValueId q = input("q", s.queries, s.depth);
  const ValueId k = input("k", s.keys, s.depth);
  const ValueId v = input("v", s.keys, s.width);
  const ValueId dy = input("dy", s.queries, s.width);
  const AttentionAttributes attention{
      1 / std::sqrt(static_cast<double>(s.depth)), at.causal, true};
  ValueIds inputs{q, k, v};
  if (!at.mask.empty()) {
    inputs.push_back(*builder.Input("mask", {at.type, MaskShape(at)}));
  }
  const ValueIds y = *builder.Emit(Op::kAttention, inputs, attention);
  ValueIds backward{dy, q, k, v, y[0], y[1]};
  if (!at.mask.empty()) backward.push_back(inputs[3]);
  const ValueIds slopes =
      *builder.Emit(Op::kAttentionGrad, backward, attention);
  graph.AddOutput("y", y[0]);
  graph.AddOutput("lse", y[1]);
  graph.AddOutput("dq", slopes[0]);
  graph.AddOutput("dk", slopes[1]);
  graph.AddOutput("dv", slopes[2]);
  return graph;
}

std::vector<AttentionCase> AttentionCases(DType type) {
  std::vector<AttentionCase> cases;
  for (const bool causal : {false, true}) {
    for (const char* mask :
         {"", "11TS", "B1TS", "1HTS", "BHTS", "B11S", "BHT1"}) {
      AttentionCase at{.type = type, .causal = causal, .mask = mask};
      cases.push_back(at);
      // A blind query needs a mask that differs between queries.
      if (at.mask.size() < 4 || at.mask[2] == '1') continue;
      at.blind = true;
      cases.push_back(at);
    }
    AttentionCase uneven{.sizes = {1, 3, 5, 9, 7, 4}, .type = type};
    uneven.causal = causal;
    cases.push_back(uneven);
  }
  return cases;
}

void ExpectAttentionAgrees(const AttentionCase& at, DeviceBackend& backend,
                           double tolerance, CachingAllocator* allocator) {
  const Graph graph = AttentionGraph(at);
  const NamedNumbers inputs = InputsOf(at, graph);
  NamedNumbers none;
  const auto got = RunNodes(backend, graph, inputs, none, allocator);
  ASSERT_TRUE(got.ok()) << got.status();
  const auto wanted =
      reference::Run(graph, inputs, none, {.round_to_dtype = true});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  for (const auto& [name, numbers] : *wanted) {
    EXPECT_LE(ErrorOf(got->at(name), numbers), tolerance) << name;
  }
  if (at.blind) ExpectBlind(at, *got);
}

}  // namespace gpupool::engine::testing
