// Runs single nodes of com.microsoft and ai.onnx.ml, for the tests of their
// lowerings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {

// Returns the case of a graph that uses ai.onnx of version 17, com.microsoft,
// and ai.onnx.ml of version 5.
LoweringCase DomainCase(const std::string& graph,
                        std::map<std::string, HostTensor> inputs = {});
// Returns the outputs in the order of the text, or the import's error.
absl::StatusOr<std::vector<HostTensor>> RunDomain(
    const std::string& graph, std::map<std::string, HostTensor> inputs);
// Returns the text of the error with which the import of a graph fails.
std::string Refusal(const std::string& graph);

// Expects a tensor of these dimensions with these numbers, up to 1e-4 of their
// size. NaN is equal to NaN.
void ExpectNumbers(const HostTensor& tensor, const std::vector<int64_t>& dims,
                   const std::vector<double>& numbers);

}  // namespace gpupool::engine::onnx_import
