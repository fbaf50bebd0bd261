// Facts about each ONNX operator from the official cases: whether the nodes
// that it becomes have gradients and kernels. Slow, because it reads files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace gpupool::engine::onnx_import {

struct OperatorFacts {
  bool alone = true;  // whether the cases have no other operator
  int cases = 0;
  int passing = 0;  // cases that are not listed as unsupported
  // Pairs of a floating input and a floating output, and the number of pairs
  // that have a gradient.
  int ways = 0;
  int ways_with_gradient = 0;
  std::set<std::string> refusals;  // why the other pairs have none
  // Passing cases, only those with float32 inputs if there are any.
  int runs = 0;
  int runs_fast = 0;            // every node has a fast CPU kernel
  int runs_at_import = 0;       // no node is left to run
  std::set<std::string> types;  // of the inputs in passing cases
};

// A domain ("" for ai.onnx) and a name.
using OperatorKey = std::pair<std::string, std::string>;

// Returns the facts of every operator with a case. The cases of an operator are
// those without any other operator, or, if there are none, all in which it
// occurs. If none of them passes, a model of our own is used, which is not
// counted as a case. The status is that of a case that should pass but cannot
// be imported.
absl::StatusOr<std::map<OperatorKey, OperatorFacts>> SurveyOperators();

// Returns "yes", "no", "part", or "-" if there is no pair.
std::string GradientCell(const OperatorFacts& facts);
// Returns "fast", "reference", "part", "import", or "-" if nothing ran.
std::string CpuCell(const OperatorFacts& facts);

}  // namespace gpupool::engine::onnx_import
