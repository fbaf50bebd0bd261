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

// Splits the rows so that they do, by a stratified rule. The labels are class
// numbers below kMaxClasses, one a row; INVALID_ARGUMENT names the row of any
// other. The order that the seed determines is first sorted by class, in a
// stable way. `fold` takes every `of`-th row of it. `fraction` takes rows at
// even distances, h in all, such that the first i rows have i * h / rows of
// them, rounded down. Sizes are those of CountSplit.
absl::StatusOr<Split> SplitByClass(const v1::HeldOut& rule,
                                   const Column& labels);

}  // namespace gpupool::engine
