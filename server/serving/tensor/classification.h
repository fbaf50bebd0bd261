// The classification of an output: the largest elements of each row as texts,
// as Triton's extension of the same name has them.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// An output that a request asks for.
struct AskedOutput {
  int index = 0;         // among the outputs of the version
  uint32_t classes = 0;  // most classes of a row; 0: the output itself

  bool operator==(const AskedOutput&) const = default;
};

// Rows of a tensor in the type of answers.
struct ClassifiedRows {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  uint64_t rows = 1;
  uint64_t elements = 0;                 // of one row
  absl::Span<const std::byte> bytes;     // of rows * elements elements
  absl::Span<const std::string> labels;  // by index; fewer than elements: some
};

// Returns OK for types whose elements are numbers. InvalidArgument names
// `output` and its type.
absl::Status CheckClassified(absl::string_view output, v1::DataType type);

// Returns the texts "VALUE:INDEX:LABEL" of the `classes` largest elements of
// each row, largest first, as BYTES: each with its length in 4 bytes before it.
// An element without a label is "VALUE:INDEX". Of equal elements the one with
// the smaller index is first, and NaN is below all numbers. Floating numbers
// have six digits after the point. `classes` is at most rows.elements, and
// CheckClassified takes the type.
std::string Classify(const ClassifiedRows& rows, uint64_t classes);

}  // namespace gpupool::server
