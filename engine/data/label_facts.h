// What is known of a dataset's labels without reading them again: the shape of
// one row's label and the range of its numbers. A value.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::v1 {
class Dataset;
class LabelFacts;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct LabelFacts {
  std::vector<int64_t> shape;  // of one row's label; empty: one number
  // Every number is whole and at most kMaxClasses away from 0.
  bool whole = false;
  // NaN where nobody knows; then every comparison with them is false.
  double minimum = 0;
  double maximum = 0;

  // Numbers of one row's label; the shape was checked when it was read.
  uint64_t numbers() const;
  // Largest label + 1 when the labels can be class numbers: whole, from 0, and
  // below kMaxClasses; else 0.
  uint32_t class_count() const;
};

// More classes than this are taken for measurements, not for classes. All of
// them are exact as float32.
inline constexpr double kMaxClasses = 1 << 24;

// `labels` are the numbers of all rows, at least one and all finite.
LabelFacts SummarizeLabels(std::vector<int64_t> shape,
                           absl::Span<const float> labels);

void ToProto(const LabelFacts& facts, v1::LabelFacts* message);

// Of a stored dataset; where it was stored before label facts were, what its
// number of classes tells.
LabelFacts LabelFactsOf(const v1::Dataset& dataset);

}  // namespace gpupool::engine
