// Compares an output of a back end with runs of the reference. Pure functions.
//
// An element is compared if all runs of the reference, with and without noise
// (noise.h), agree on what it is: a finite number, NaN, or an infinity of one
// sign. NaN must be NaN and an infinity the same infinity. A finite number x of
// a floating type may differ by
//
//   16 s + m + 16 u |x| + t
//
// where s is the largest difference of the runs at this element, m is the mean
// of s over the tensor, u is the unit in the last place of 1 in the type
// (float64: 2^-26, since attributes of a file are float32) and t
// its smallest normal number. Integers and bools must be equal; an element on
// which the runs disagree is not compared.
#pragma once

#include <string>
#include <vector>

#include "engine/tensor/dtype.h"

namespace gpupool::engine::fuzz {

struct Comparison {
  std::string difference;  // of the first wrong element; empty: none
  int64_t compared = 0;
  int64_t skipped = 0;
};

// `runs`: the numbers of the reference, the first without noise. `got` has as
// many elements as each of them.
Comparison CompareWithRuns(DType dtype,
                           const std::vector<std::vector<double>>& runs,
                           const std::vector<double>& got);

}  // namespace gpupool::engine::fuzz
