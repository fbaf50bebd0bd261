#include "engine/data/prepare/split.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/data/column.h"
#include "engine/data/label_facts.h"
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

// Marks every `of`-th row of the order, from `index` on.
void ChooseFold(const v1::HeldOut::Fold& fold,
                const std::vector<uint32_t>& order, std::vector<bool>& chosen) {
  // Compares differences, since a sum of place and `of` may overflow.
  for (uint64_t i = fold.index(); i < order.size(); i += fold.of()) {
    chosen[order[i]] = true;
    if (fold.of() >= order.size() - i) return;
  }
}

// Returns for each row whether it is held out.
std::vector<bool> Choose(const v1::HeldOut& rule, uint64_t rows,
                         uint64_t held_out) {
  std::vector<bool> chosen(rows);
  if (rule.has_fraction()) {
    const std::vector<uint32_t> order = Shuffled(rule.fraction().seed(), rows);
    for (uint64_t i = 0; i < held_out; ++i) chosen[order[i]] = true;
  } else if (rule.has_fold()) {
    ChooseFold(rule.fold(), Shuffled(rule.fold().seed(), rows), chosen);
  } else if (rule.has_every()) {
    for (uint64_t i = rule.every() - 1; i < rows; i += rule.every()) {
      chosen[i] = true;
    }
  } else {
    for (uint64_t i = rows - held_out; i < rows; ++i) chosen[i] = true;
  }
  return chosen;
}

Split SplitOf(const std::vector<bool>& chosen, const SplitSizes& sizes) {
  Split split;
  split.training.reserve(sizes.training);
  split.held_out.reserve(sizes.held_out);
  for (uint64_t row = 0; row < chosen.size(); ++row) {
    (chosen[row] ? split.held_out : split.training)
        .push_back(static_cast<uint32_t>(row));
  }
  return split;
}

// Returns the class of each row.
absl::StatusOr<std::vector<int32_t>> ClassesOf(const Column& labels) {
  std::vector<int32_t> classes(labels.rows);
  Convert(labels, 0, absl::MakeSpan(classes));
  const auto wrong =
      std::find_if(classes.begin(), classes.end(), [](int32_t label) {
        return label < 0 || label >= static_cast<int32_t>(kMaxClasses);
      });
  if (wrong == classes.end()) return classes;
  return absl::InvalidArgumentError(
      absl::StrCat(labels.row_name(), " ", wrong - classes.begin(),
                   " of the dataset, counted from 0, has ", "label ", *wrong,
                   "; held_out.stratified needs class numbers from 0 to ",
                   static_cast<int32_t>(kMaxClasses) - 1));
}

// Sorts the rows by class and leaves those of a class in their order.
std::vector<uint32_t> SortedByClass(const std::vector<uint32_t>& order,
                                    const std::vector<int32_t>& classes) {
  const int32_t last = *std::max_element(classes.begin(), classes.end());
  // Begins of the classes in the sorted order.
  std::vector<uint32_t> next(static_cast<size_t>(last) + 2);
  for (const int32_t label : classes) ++next[static_cast<size_t>(label) + 1];
  for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  std::vector<uint32_t> sorted(order.size());
  for (const uint32_t row : order) {
    sorted[next[static_cast<size_t>(classes[row])]++] = row;
  }
  return sorted;
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
  return SplitOf(Choose(rule, rows, sizes.held_out), sizes);
}

bool IsStratified(const v1::HeldOut& rule) {
  return rule.fraction().stratified() || rule.fold().stratified();
}

absl::StatusOr<Split> SplitByClass(const v1::HeldOut& rule,
                                   const Column& labels) {
  const uint64_t rows = labels.rows;
  ASSIGN_OR_RETURN(const SplitSizes sizes, CountSplit(rule, rows));
  ASSIGN_OR_RETURN(const std::vector<int32_t> classes, ClassesOf(labels));
  const uint64_t seed =
      rule.has_fold() ? rule.fold().seed() : rule.fraction().seed();
  const std::vector<uint32_t> order =
      SortedByClass(Shuffled(seed, rows), classes);
  std::vector<bool> chosen(rows);
  if (rule.has_fold()) {
    ChooseFold(rule.fold(), order, chosen);
    return SplitOf(chosen, sizes);
  }
  // Both factors are below 2^32.
  for (uint64_t i = 0; i < rows; ++i) {
    chosen[order[i]] =
        (i + 1) * sizes.held_out / rows > i * sizes.held_out / rows;
  }
  return SplitOf(chosen, sizes);
}

}  // namespace gpupool::engine
