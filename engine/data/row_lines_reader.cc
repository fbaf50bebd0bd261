#include "engine/data/row_lines_reader.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/data/csv/cells.h"

namespace gpupool::engine {

absl::StatusOr<Table> RowLinesReader::Read(std::string_view bytes) {
  if (builder_.surveying()) {
    RETURN_IF_ERROR(ReadLines(*OpenByteStream(bytes)));
    RETURN_IF_ERROR(
        builder_.EndSurvey([this](size_t column) { return PlaceOf(column); }));
  }
  RETURN_IF_ERROR(ReadLines(*OpenByteStream(bytes)));
  return builder_.Finish();
}

absl::Status RowLinesReader::ReadLines(ByteStream& stream) {
  CsvLines lines(stream, form_);
  builder_.BeginPass();
  BeginLines();
  for (;;) {
    const auto next = lines.Next();
    line_number_ = lines.line_number();
    if (!next.ok()) {
      return absl::Status(
          next.status().code(),
          absl::StrCat("line ", line_number_, " ", next.status().message()));
    }
    if (!next->has_value()) return absl::OkStatus();
    if (!Trimmed(**next).empty()) RETURN_IF_ERROR(AddLine(**next));
  }
}

absl::Status RowLinesReader::EndRow() {
  const absl::Status ended = builder_.EndRow();
  return absl::IsInvalidArgument(ended) ? Error(ended.message()) : ended;
}

absl::Status RowLinesReader::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line_number_, " ", what));
}

absl::Status RowLinesReader::ErrorAt(size_t column,
                                     absl::string_view what) const {
  return Error(absl::StrCat(PlaceOf(column), ": ", what));
}

}  // namespace gpupool::engine
