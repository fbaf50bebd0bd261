// What the official cases tell about each ONNX operator: the nodes that it
// becomes are asked for gradients and for kernels. Reads files, so slow.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace gpupool::engine::onnx_import {

struct OperatorFacts {
  bool alone = true;  // the cases have no other operator
  int cases = 0;
  int passing = 0;  // of them: those that are not listed as unsupported
  // Ways from a floating input to a floating output, and those of them that
  // have a gradient.
  int ways = 0;
  int ways_with_gradient = 0;
  std::set<std::string> refusals;  // why the others have none
  // Of the passing cases: those with float32 inputs where there are any.
  int runs = 0;
  int runs_fast = 0;            // every node has a CPU kernel of its own
  int runs_at_import = 0;       // no node is left to run
  std::set<std::string> types;  // of the inputs in passing cases
};

// A domain, "" for ai.onnx, and a name.
using OperatorKey = std::pair<std::string, std::string>;

// The facts of every operator with a case. Cases of an operator are those with
// no other one in them; where none is such, all that it occurs in. Where none
// passes, a model of our own stands for them, which counts as no case. The
// status is that of a case that should pass and cannot be imported.
absl::StatusOr<std::map<OperatorKey, OperatorFacts>> SurveyOperators();

// "yes", "no", "part", or "-" where there is no way to ask.
std::string GradientCell(const OperatorFacts& facts);
// "fast", "reference", "part", "import", or "-" where nothing ran.
std::string CpuCell(const OperatorFacts& facts);

}  // namespace gpupool::engine::onnx_import
