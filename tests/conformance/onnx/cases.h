// The official backend test cases of ONNX: folders with a model and data sets
// of inputs and expected outputs, from Debian's libonnx-testdata or from the
// folder that ONNX_CASES_DIR names. Pure except for reading files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// The newest operator set of ONNX 1.12 (Debian 12). docs/operators.md and the
// list of expected_unsupported.h describe its cases.
inline constexpr int kDescribedOperatorSet = 17;

struct Case {
  std::string family;  // "node"
  std::string name;    // "test_abs"
  std::string folder;
};

// Returns whether the cases are those of ONNX 1.12. False for those of a newer
// package and for those of ONNX_CASES_DIR, of which no list tells what is
// supported.
bool AreCasesDescribed();

// Returns all cases of the families, sorted, or none if the package is not
// installed.
std::vector<Case> AllCases();

// A tensor, a sequence, or an empty optional.
struct CaseValue {
  std::string name;
  std::optional<HostTensor> tensor;
  std::optional<std::vector<HostTensor>> sequence;
};

struct DataSet {
  std::vector<CaseValue> inputs;
  std::vector<CaseValue> outputs;
};

// Reads the case's data sets. Unimplemented if the engine does not have a
// value's type.
absl::StatusOr<std::vector<DataSet>> ReadDataSets(const Case& test,
                                                  const OnnxFile& file);

// Returns the names of the operators in the model's graph, each once.
std::vector<std::string> OperatorsOf(const OnnxFile& file);

}  // namespace gpupool::engine::onnx_import
