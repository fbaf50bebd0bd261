// Runs single nodes of com.microsoft and ai.onnx.ml, for the tests of their
// lowerings.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {

// Returns the case of a graph that uses ai.onnx of version 17, com.microsoft,
// and ai.onnx.ml of version 5.
LoweringCase DomainCase(const std::string& graph,
                        std::map<std::string, HostTensor> inputs = {});

HostTensor Tensor(DType dtype, std::vector<int64_t> dims,
                  std::vector<double> numbers);

using NamedTensors = std::vector<std::pair<std::string, HostTensor>>;

// Runs a graph of these nodes, written as "y = com.microsoft.Gelu(x)", whose
// inputs and outputs have the types of the tensors. Expects the outputs, as
// ExpectNumbers does.
void ExpectOutputs(const std::string& nodes, const NamedTensors& inputs,
                   const NamedTensors& outputs);

// Expects a tensor of these dimensions with these numbers, up to 1e-4 of their
// size. NaN is equal to NaN.
void ExpectNumbers(const HostTensor& tensor, const std::vector<int64_t>& dims,
                   const std::vector<double>& numbers);

struct RefusedNodes {
  std::string rule;     // the name of the case
  std::string ports;    // "(float[2] x) => (float[2] y)"
  std::string nodes;    // as those of ExpectOutputs
  std::string message;  // a part of the error's text
};

// Expects that the import of each graph fails with its message.
void ExpectRefusals(absl::Span<const RefusedNodes> cases);

}  // namespace gpupool::engine::onnx_import
