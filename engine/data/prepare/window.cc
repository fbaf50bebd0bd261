#include "engine/data/prepare/window.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/row_windows.h"
#include "engine/base/status_macros.h"
#include "engine/data/random_table.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

std::vector<int64_t> InFront(uint64_t count, const std::vector<int64_t>& row) {
  std::vector<int64_t> shape = {static_cast<int64_t>(count)};
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

// Returns the fields that decide how many rows a window needs.
std::string PartsOf(const v1::Window& window) {
  const RowWindows windows = RowWindowsOf(window);
  if (HasTargetOfEachRow(window)) {
    return absl::StrCat("length ", windows.length, ", targets ",
                        v1::Window::Targets_Name(window.targets()));
  }
  return absl::StrCat("length ", windows.length, ", horizon ", windows.horizon,
                      ", target rows ", windows.target_rows);
}

// A part of each window: these rows of the series, from its first row on.
struct WindowPart {
  uint64_t begin = 0;
  uint64_t rows = 1;
  std::vector<int64_t> shape;
};

// Turns a column of the series into a view of a part of each window.
absl::Status View(const RowWindows& windows, const WindowPart& part,
                  Column& column) {
  // Bounds the product of the shape, which is the new width.
  RETURN_IF_ERROR(CheckedElementCount(part.shape).status());
  column.data += part.begin * column.row_bytes();
  column.rows = windows.CountIn(column.rows);
  column.step = windows.stride * column.width;
  column.width *= part.rows;
  column.shape = part.shape;
  column.facts.shape = part.shape;
  return absl::OkStatus();
}

// Returns the target that predict_input stands for, as a column of the series.
absl::StatusOr<Column> InputAsTarget(const Table& series) {
  if (series.inputs.size() != 1) {
    return Refuse("data.window.predict_input is for datasets with one input, ",
                  "but this one has ", series.inputs.size(),
                  "; leave it out, and upload the targets");
  }
  Column target = series.features();
  target.name.clear();
  // The range is not known without reading the numbers.
  target.facts = {.whole = !IsFloating(target.stored),
                  .minimum = std::numeric_limits<double>::quiet_NaN(),
                  .maximum = std::numeric_limits<double>::quiet_NaN()};
  return target;
}

}  // namespace

absl::Status CheckWindow(const v1::DataSpec& data) {
  if (!data.has_window()) return absl::OkStatus();
  const v1::Window& window = data.window();
  RETURN_IF_ERROR(CheckWindowRows(window));
  const bool now = window.has_horizon() && window.horizon() == 0;
  if (!now || !window.predict_input()) return absl::OkStatus();
  return Refuse(
      "data.window.horizon is 0 with predict_input, so the target would be the "
      "last row of the input itself; set horizon to at least 1");
}

absl::StatusOr<uint64_t> CountWindows(const v1::Window& window, uint64_t rows) {
  const RowWindows windows = RowWindowsOf(window);
  const uint64_t count = windows.CountIn(rows);
  if (count > 0) return count;
  return Refuse("data.window needs ", windows.span(), " rows for one window (",
                PartsOf(window), "), but the dataset has ", rows,
                "; lower one of them, or upload a longer series");
}

std::vector<int64_t> InputWindowShape(const v1::Window& window,
                                      const std::vector<int64_t>& row) {
  return InFront(window.length(), row);
}

std::vector<int64_t> TargetWindowShape(const v1::Window& window,
                                       const std::vector<int64_t>& row) {
  if (HasTargetOfEachRow(window)) return InFront(window.length(), row);
  return window.target_rows() == 0 ? row : InFront(window.target_rows(), row);
}

absl::StatusOr<Table> WindowTable(const v1::DataSpec& data, Table series) {
  if (!data.has_window()) return series;
  const v1::Window& window = data.window();
  const RowWindows windows = RowWindowsOf(window);
  ASSIGN_OR_RETURN(const uint64_t count, CountWindows(window, series.rows));
  if (window.predict_input()) {
    ASSIGN_OR_RETURN(Column target, InputAsTarget(series));
    series.targets.clear();
    series.targets.push_back(std::move(target));
  }
  for (Column& input : series.inputs) {
    RETURN_IF_ERROR(View(
        windows, {0, windows.length, InputWindowShape(window, input.shape)},
        input));
  }
  for (Column& target : series.targets) {
    RETURN_IF_ERROR(View(windows,
                         {windows.target_begin(), windows.target_rows,
                          TargetWindowShape(window, target.shape)},
                         target));
  }
  series.rows = count;
  return series;
}

absl::StatusOr<Table> ReadRows(const v1::DataSpec& data,
                               const v1::Dataset& dataset,
                               const std::string& blob_dir,
                               const ReadLimits& limits) {
  RETURN_IF_ERROR(CheckWindow(data));
  ASSIGN_OR_RETURN(Table series, ReadOrMakeTable(dataset, blob_dir, limits));
  return WindowTable(data, std::move(series));
}

absl::StatusOr<SplitSizes> CountSplitApart(const v1::DataSpec& data,
                                           uint64_t rows) {
  const v1::HeldOut& rule = data.held_out();
  ASSIGN_OR_RETURN(SplitSizes sizes, CountSplit(rule, rows));
  if (!data.has_window() || sizes.held_out == 0) return sizes;
  const RowWindows windows = RowWindowsOf(data.window());
  const uint64_t shared = windows.overlapping();
  if (shared > 0 && !rule.has_last()) {
    return Refuse(
        "data.held_out would choose windows between others, but each shares "
        "rows with the ",
        shared, " before it, so held-out rows would be trained on; set ",
        "held_out.last or data.validation, or data.window.stride to at least ",
        windows.span());
  }
  if (sizes.training > shared) {
    sizes.training -= shared;
    return sizes;
  }
  return Refuse("data.held_out.last is ", rule.last(), " of ", rows,
                " windows, and the ", shared,
                " before them share rows with them, so none is left to train ",
                "on; lower held_out.last, or upload a longer series");
}

}  // namespace gpupool::engine
