// The division of a dataset's rows into training rows and rows held out for
// evaluation. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace gpupool::v1 {
class HeldOut;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct Column;

struct Split {
  std::vector<uint32_t> training;  // rising
  std::vector<uint32_t> held_out;  // rising
};

struct SplitSizes {
  uint64_t training = 0;
  uint64_t held_out = 0;
};

// Returns the sizes of SplitRows without making the split. INVALID_ARGUMENT
// when the rule's number is out of range or leaves one side empty. Without a
// rule every row trains.
absl::StatusOr<SplitSizes> CountSplit(const v1::HeldOut& rule, uint64_t rows);

// Splits the rows. `every: n` holds out rows n-1, 2n-1, ...; `last: n` the last
// n rows; `fraction` a choice of round(rows * fraction) rows that is fixed by
// its seed; `fold` every `of`-th row, from `index`, of an order that is fixed
// by its seed. Ignores whether the rule is stratified.
absl::StatusOr<Split> SplitRows(const v1::HeldOut& rule, uint64_t rows);

// Returns whether both sides of the split keep the shares of the classes.
bool IsStratified(const v1::HeldOut& rule);

// Splits the rows by a stratified rule: both sides keep the shares of the
// classes. Sizes are those of CountSplit. The order that the seed determines is
// first sorted by class; rows of a class keep their order.
//   * `fold` takes every `of`-th row of the sorted order.
//   * `fraction` takes h rows at even distances: i * h / rows of the first i
//     rows, rounded down.
// `labels` are class numbers below kMaxClasses, one a row. INVALID_ARGUMENT
// names the first row with another label.
absl::StatusOr<Split> SplitByClass(const v1::HeldOut& rule,
                                   const Column& labels);

}  // namespace gpupool::engine
