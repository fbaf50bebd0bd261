// Facts about a dataset's labels that avoid a second reading: the shape of one
// row's label and the range of its numbers. A value.
#pragma once

#include <cstdint>
#include <vector>

namespace gpupool::v1 {
class Dataset;
class LabelFacts;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct Column;

struct LabelFacts {
  std::vector<int64_t> shape;  // shape of one row's label; empty: one number
  // True when every number is whole and at most kMaxClasses away from 0.
  bool whole = false;
  // The range; NaN when unknown, so that every comparison with it is false.
  double minimum = 0;
  double maximum = 0;

  // Returns the count of numbers in one row's label. The shape must be valid,
  // as readers guarantee.
  uint64_t numbers() const;
  // Returns the largest label + 1 when labels can be class numbers: whole, not
  // negative and below kMaxClasses. Returns 0 otherwise.
  uint32_t class_count() const;
};

// The bound of class numbers: larger labels are measurements. All whole numbers
// up to it are exact as float32.
inline constexpr double kMaxClasses = 1 << 24;

// Returns the facts of the column's numbers, at least one and all finite.
LabelFacts SummarizeLabels(const Column& labels);

void ToProto(const LabelFacts& facts, v1::LabelFacts* message);
LabelFacts FromProto(const v1::LabelFacts& message);

// Returns the facts of a stored dataset. For one that was stored without them,
// derives them from its number of classes.
LabelFacts LabelFactsOf(const v1::Dataset& dataset);

}  // namespace gpupool::engine
