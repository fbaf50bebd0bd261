// Selects rows of a table: `--rows every:5`, or the rows that a job held out of
// training. Uses the rules of HeldOut in job.proto. Pure; from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// Returns the ascending positions of the rows that `text` selects in a table of
// `rows` rows:
//   all        every row
//   every:N    rows N-1, 2N-1, ... (N >= 2)
//   last:N     the last N rows (1 <= N <= rows)
//   A:B        rows A .. B-1, zero-based; either end may be left out
// InvalidArgument for other texts and for selections without rows.
absl::StatusOr<std::vector<size_t>> SelectRows(absl::string_view text,
                                               size_t rows);

// Returns the rows that `rule` holds out. FailedPrecondition without a rule,
// and for a fraction or a fold, because only the server makes its random
// choice.
absl::StatusOr<std::vector<size_t>> HeldOutRows(const v1::HeldOut& rule,
                                                size_t rows);

}  // namespace gpupool::client
