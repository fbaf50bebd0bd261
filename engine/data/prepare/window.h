// Rows that are windows over a series of rows (data.window). Pure but for
// reading files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/prepare/split.h"
#include "engine/data/table.h"

namespace gpupool::v1 {
class DataSpec;
class Dataset;
class Window;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Checks the numbers of data.window, as CheckWindowRows, and whether they go
// together. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckWindow(const v1::DataSpec& data);

// Returns the number of windows over the rows of a series, at least one.
// INVALID_ARGUMENT when the series is too short.
absl::StatusOr<uint64_t> CountWindows(const v1::Window& window, uint64_t rows);

// Return the shape of inputs and of targets that are windows over rows of this
// shape.
std::vector<int64_t> InputWindowShape(const v1::Window& window,
                                      const std::vector<int64_t>& row);
std::vector<int64_t> TargetWindowShape(const v1::Window& window,
                                       const std::vector<int64_t>& row);

// Returns the windows over the rows of a table as views, which share its bytes.
// data.window must have passed CheckWindow; a job without it has the rows
// themselves. INVALID_ARGUMENT when the series is too short, or has several
// inputs that targets could be.
absl::StatusOr<Table> WindowTable(const v1::DataSpec& data, Table series);

// Reads the rows that the job takes from a dataset: those of ReadOrMakeTable,
// or the windows over them. Errors as those of CheckWindow and WindowTable.
absl::StatusOr<Table> ReadRows(const v1::DataSpec& data,
                               const v1::Dataset& dataset,
                               const std::string& blob_dir,
                               const ReadLimits& limits);

// Returns the sizes of the split of these rows by data.held_out, as CountSplit.
// Training windows that share a row of the series with held-out ones do not
// count. INVALID_ARGUMENT when nothing is left, or when the rule would hold out
// windows between others that share their rows.
absl::StatusOr<SplitSizes> CountSplitApart(const v1::DataSpec& data,
                                           uint64_t rows);

}  // namespace gpupool::engine
