// The ONNX operators that can be imported, with the function that lowers each
// to nodes of a graph. Pure functions and constant tables, usable from any
// thread.
//
// Every family has a file lower_<family>.cc with its rows. A new operator needs
// one row and one lowering there.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// The dependence of an operator's outputs on its inputs, for docs/operators.md.
enum class OperatorNeeds : uint8_t {
  kShapesOnly,  // sizes follow from shapes and attributes
  kNumbers,     // some inputs must be known at import, or be bound
};

// Short names for the tables of the operators.
inline constexpr OperatorNeeds kShapes = OperatorNeeds::kShapesOnly;
inline constexpr OperatorNeeds kNumbers = OperatorNeeds::kNumbers;

struct OperatorEntry {
  absl::string_view domain;  // "" is ai.onnx
  absl::string_view name;    // "Conv"
  absl::string_view family;  // "convolution"
  OperatorNeeds needs = OperatorNeeds::kShapesOnly;
  Lowering lowering = nullptr;
};

// Returns all operators, ordered by domain and name. Control flow (If, Loop,
// Scan) is not included: the importer handles it.
absl::Span<const OperatorEntry> Operators();

// Returns nullptr for an operator that cannot be imported. "ai.onnx" is the
// same domain as "".
const OperatorEntry* FindOperator(absl::string_view domain,
                                  absl::string_view name);

// Return the rows of each family.
absl::Span<const OperatorEntry> ElementwiseOperators();
absl::Span<const OperatorEntry> ActivationOperators();
absl::Span<const OperatorEntry> ReduceOperators();
absl::Span<const OperatorEntry> ShapeOperators();
absl::Span<const OperatorEntry> CreateOperators();
absl::Span<const OperatorEntry> IndexOperators();
absl::Span<const OperatorEntry> SelectOperators();
absl::Span<const OperatorEntry> ConvOperators();
absl::Span<const OperatorEntry> PoolOperators();
absl::Span<const OperatorEntry> NormOperators();
absl::Span<const OperatorEntry> MatMulOperators();
absl::Span<const OperatorEntry> EinsumOperators();
absl::Span<const OperatorEntry> AttentionOperators();
absl::Span<const OperatorEntry> RecurrentOperators();
absl::Span<const OperatorEntry> ResizeOperators();
absl::Span<const OperatorEntry> LossOperators();
absl::Span<const OperatorEntry> TrainingOperators();
absl::Span<const OperatorEntry> QuantizeOperators();
absl::Span<const OperatorEntry> DetectionOperators();
absl::Span<const OperatorEntry> SamplingOperators();
absl::Span<const OperatorEntry> RandomOperators();
absl::Span<const OperatorEntry> SignalOperators();
absl::Span<const OperatorEntry> ColumnOperators();
absl::Span<const OperatorEntry> LinearAttentionOperators();
// Return the rows of families of the domain com.microsoft.
absl::Span<const OperatorEntry> FusedActivationOperators();
absl::Span<const OperatorEntry> SkipNormOperators();
absl::Span<const OperatorEntry> FusedProductOperators();
absl::Span<const OperatorEntry> QuantizedOperators();
absl::Span<const OperatorEntry> QuantizedProductOperators();
absl::Span<const OperatorEntry> PackedAttentionOperators();
absl::Span<const OperatorEntry> GroupedAttentionOperators();
// Return the rows of families of the domain ai.onnx.ml.
absl::Span<const OperatorEntry> FeatureOperators();
absl::Span<const OperatorEntry> LinearModelOperators();
absl::Span<const OperatorEntry> SvmOperators();
absl::Span<const OperatorEntry> TreeOperators();

}  // namespace gpupool::engine::onnx_import
