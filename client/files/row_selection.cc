#include "client/files/row_selection.h"

#include <cstdint>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/text/counted.h"

namespace gpupool::client {
namespace {

std::vector<size_t> Range(size_t begin, size_t end) {
  std::vector<size_t> positions(end - begin);
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

absl::StatusOr<std::vector<size_t>> Every(uint64_t n, size_t rows) {
  if (n < 2 || n > rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("every:", n, " selects no rows of a table of ", rows,
                     "; N must be in 2..", rows));
  }
  std::vector<size_t> positions;
  for (size_t row = n - 1; row < rows; row += n) positions.push_back(row);
  return positions;
}

absl::StatusOr<std::vector<size_t>> Last(uint64_t n, size_t rows) {
  if (n < 1 || n > rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("last:", n, " does not fit a table of ",
                     Counted(rows, "row"), "; N must be in 1..", rows));
  }
  return Range(rows - n, rows);
}

absl::StatusOr<std::vector<size_t>> Slice(absl::string_view text, size_t colon,
                                          size_t rows) {
  uint64_t begin = 0, end = rows;
  const absl::string_view first = text.substr(0, colon);
  const absl::string_view second = text.substr(colon + 1);
  if ((!first.empty() && !absl::SimpleAtoi(first, &begin)) ||
      (!second.empty() && !absl::SimpleAtoi(second, &end)) || begin >= end ||
      end > rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' selects no rows: A:B needs 0 <= A < B <= ", rows,
        ", the rows of the table"));
  }
  return Range(begin, end);
}

}  // namespace

absl::StatusOr<std::vector<size_t>> SelectRows(absl::string_view text,
                                               size_t rows) {
  if (text == "all") return Range(0, rows);
  absl::string_view number = text;
  uint64_t n = 0;
  if (absl::ConsumePrefix(&number, "every:") && absl::SimpleAtoi(number, &n)) {
    return Every(n, rows);
  }
  number = text;
  if (absl::ConsumePrefix(&number, "last:") && absl::SimpleAtoi(number, &n)) {
    return Last(n, rows);
  }
  const size_t colon = text.find(':');
  if (colon != absl::string_view::npos &&
      text.find_first_not_of("0123456789:") == absl::string_view::npos) {
    return Slice(text, colon, rows);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' does not select rows; write all, every:N, last:N or A:B"));
}

absl::StatusOr<std::vector<size_t>> HeldOutRows(const v1::HeldOut& rule,
                                                size_t rows) {
  switch (rule.rule_case()) {
    case v1::HeldOut::kEvery:
      return Every(rule.every(), rows);
    case v1::HeldOut::kLast:
      return Last(rule.last(), rows);
    case v1::HeldOut::kFraction:
    case v1::HeldOut::kFold:
      return absl::FailedPreconditionError(absl::StrCat(
          "rows held out by data.held_out.",
          rule.has_fold() ? "fold" : "fraction",
          " are drawn by the server, the client cannot name them; hold out by "
          "`every` or `last`, or choose rows with --rows"));
    case v1::HeldOut::RULE_NOT_SET:
      break;
  }
  return absl::FailedPreconditionError(
      "the job holds no rows out (data.held_out is not set); choose rows with "
      "--rows");
}

}  // namespace gpupool::client
