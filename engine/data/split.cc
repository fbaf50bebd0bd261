#include "engine/data/split.h"

#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

// Returns how many rows the rule holds out, which may be too many.
absl::StatusOr<uint64_t> HeldOutRows(const v1::HeldOut& rule, uint64_t rows) {
  switch (rule.rule_case()) {
    case v1::HeldOut::kEvery:
      if (rule.every() < 2) {
        return absl::InvalidArgumentError(absl::StrCat(
            "held_out.every is ", rule.every(), "; it must be at least 2"));
      }
      return rows / rule.every();
    case v1::HeldOut::kLast:
      return rule.last();
    case v1::HeldOut::kFraction: {
      const double fraction = rule.fraction().fraction();
      if (!(fraction > 0 && fraction < 1)) {
        return absl::InvalidArgumentError(
            absl::StrCat("held_out.fraction is ", fraction,
                         "; it must be above 0 and below 1"));
      }
      return static_cast<uint64_t>(
          std::llround(static_cast<double>(rows) * fraction));
    }
    case v1::HeldOut::kFold: {
      const v1::HeldOut::Fold& fold = rule.fold();
      if (fold.of() < 2 || fold.index() >= fold.of()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "held_out.fold is part ", fold.index(), " of ", fold.of(),
            "; parts count from 0, and there must be at least 2"));
      }
      return rows / fold.of() + (fold.index() < rows % fold.of() ? 1 : 0);
    }
    case v1::HeldOut::RULE_NOT_SET:
      return 0;
  }
  return 0;
}

// Returns the rows in the order that the seed determines.
std::vector<uint32_t> Shuffled(uint64_t seed, uint64_t rows) {
  return PhiloxPermutation(seed, PhiloxStreamId(PhiloxStream::kSplit, 0), rows);
}

// Returns for each row whether it is held out.
std::vector<bool> Choose(const v1::HeldOut& rule, uint64_t rows,
                         uint64_t held_out) {
  std::vector<bool> chosen(rows);
  if (rule.has_fraction()) {
    const std::vector<uint32_t> order = Shuffled(rule.fraction().seed(), rows);
    for (uint64_t i = 0; i < held_out; ++i) chosen[order[i]] = true;
  } else if (rule.has_fold()) {
    const std::vector<uint32_t> order = Shuffled(rule.fold().seed(), rows);
    // Counts the rows, since a sum of row and `of` may overflow.
    uint64_t i = rule.fold().index();
    for (uint64_t left = held_out; left > 0; --left, i += rule.fold().of()) {
      chosen[order[i]] = true;
    }
  } else if (rule.has_every()) {
    for (uint64_t i = rule.every() - 1; i < rows; i += rule.every()) {
      chosen[i] = true;
    }
  } else {
    for (uint64_t i = rows - held_out; i < rows; ++i) chosen[i] = true;
  }
  return chosen;
}

}  // namespace

absl::StatusOr<SplitSizes> CountSplit(const v1::HeldOut& rule, uint64_t rows) {
  // Row numbers have 32 bits.
  if (rows == 0 || rows > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a dataset of ", rows, " rows cannot be used; 1 to 2^32 - 1 rows can"));
  }
  ASSIGN_OR_RETURN(const uint64_t held_out, HeldOutRows(rule, rows));
  const bool asked = rule.rule_case() != v1::HeldOut::RULE_NOT_SET;
  if (held_out >= rows || (asked && held_out == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("held_out keeps ", held_out, " of ", rows,
                     " rows; at least one row must be held out and at least "
                     "one must train"));
  }
  return SplitSizes{rows - held_out, held_out};
}

absl::StatusOr<Split> SplitRows(const v1::HeldOut& rule, uint64_t rows) {
  ASSIGN_OR_RETURN(const SplitSizes sizes, CountSplit(rule, rows));
  const std::vector<bool> chosen = Choose(rule, rows, sizes.held_out);
  Split split;
  split.training.reserve(sizes.training);
  split.held_out.reserve(sizes.held_out);
  for (uint64_t row = 0; row < rows; ++row) {
    (chosen[row] ? split.held_out : split.training)
        .push_back(static_cast<uint32_t>(row));
  }
  return split;
}

}  // namespace gpupool::engine
