// Steps that the lowerings of ai.onnx.ml share: rows of features, classes and
// the transforms of their scores. Pure functions of the context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

inline constexpr absl::string_view kMl = "ai.onnx.ml";

// Returns input 0 as float32 rows [rows, features]. One dimension is one row.
absl::StatusOr<ValueId> FeatureRows(NodeContext& ctx);

// Returns a constant of these numbers. INVALID_ARGUMENT when their count is not
// that of the shape or over the limit of constants.
absl::StatusOr<ValueId> Listed(NodeContext& ctx, DType dtype,
                               absl::Span<const int64_t> dims,
                               std::vector<double> numbers);

// Returns INVALID_ARGUMENT unless a list attribute of `size` numbers has one,
// or one for each of the features.
absl::Status RequirePerFeature(const NodeContext& ctx, absl::string_view name,
                               int64_t size, int64_t features);
// Returns the numbers of a list attribute, which must have 1 or `count` of
// them, as a constant [1] or [count].
absl::StatusOr<ValueId> PerFeature(NodeContext& ctx, absl::string_view name,
                                   int64_t count);

// The function of scores [rows, classes] that a model ends with.
enum class ScoreTransform : uint8_t {
  kNone,
  kSoftmax,
  kLogistic,
  kSoftmaxZero,  // softmax in which scores of 0 stay 0
  kProbit,
};
absl::StatusOr<ScoreTransform> ReadTransform(const NodeContext& ctx);
absl::StatusOr<ValueId> Transformed(NodeContext& ctx, ValueId scores,
                                    ScoreTransform transform);

// The classes of a classifier. Either list is empty.
struct ClassLabels {
  std::vector<int64_t> numbers;
  std::vector<std::string> words;

  int64_t count() const {
    return static_cast<int64_t>(numbers.empty() ? words.size()
                                                : numbers.size());
  }
};
// Reads "classlabels_strings" or the list of integers of that name.
// INVALID_ARGUMENT when both or neither is there.
absl::StatusOr<ClassLabels> ReadLabels(const NodeContext& ctx,
                                       absl::string_view integers);
// Sets output 0 to the labels of the classes at int64 `places` [rows]. For
// classes with words it sets the places themselves and warns.
absl::Status SetLabels(NodeContext& ctx, ValueId places,
                       const ClassLabels& labels);
// Returns the int64 place [rows] of the first largest score of each row.
absl::StatusOr<ValueId> LargestPlace(NodeContext& ctx, ValueId scores);

// Returns 1 - x.
absl::StatusOr<ValueId> OneMinus(NodeContext& ctx, ValueId x);
// Joins two columns [rows, 1].
absl::StatusOr<ValueId> TwoColumns(NodeContext& ctx, ValueId first,
                                   ValueId second);
// Returns the scores [rows, 2] of both classes for the one column of a binary
// classifier: 1 - s and s, or with `mirrored` -s and s. LOGISTIC transforms s
// with either sign, PROBIT s alone, and the others nothing, as in ONNX Runtime.
absl::StatusOr<ValueId> BothScores(NodeContext& ctx, ValueId score,
                                   ScoreTransform transform, bool mirrored);

}  // namespace gpupool::engine::onnx_import
