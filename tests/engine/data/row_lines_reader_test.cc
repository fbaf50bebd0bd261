#include "engine/data/row_lines_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

// Rows of a feature and a label: a line is the feature, and the label is 1.
class FeatureLines final : public RowLinesReader {
 public:
  explicit FeatureLines(const CsvOptions& options = {})
      : RowLinesReader(options, {}, LineForm::kCsv) {}

  int passes = 0;
  std::vector<std::string> lines = {};  // of the last pass

 private:
  void BeginLines() override {
    ++passes;
    lines.clear();
  }
  absl::Status AddLine(std::string_view line) override {
    lines.emplace_back(line);
    if (line == "bad") return Error("is bad");
    if (builder_.columns() == 0) {
      builder_.SetColumns({{.name = "x"}, {.name = "y", .place = 0}}, 1);
    }
    builder_.BeginRow();
    RETURN_IF_ERROR(Take(0, line));
    RETURN_IF_ERROR(Take(1, "1"));
    return EndRow();
  }
  std::string PlaceOf(size_t column) const override {
    return absl::StrCat("place ", column);
  }
  absl::Status Take(size_t column, std::string_view cell) {
    const absl::StatusOr<float> number = builder_.column(column).Take(cell);
    if (!number.ok()) return ErrorAt(column, number.status().message());
    builder_.Add(column, *number);
    return absl::OkStatus();
  }
};

TEST(RowLinesReaderTest, ReadsRowsOfLinesThatAreNotBlank) {
  FeatureLines reader;
  const auto table = reader.Read("2\n\n \t\n3\r\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(reader.lines, ElementsAre("2", "3"));
  EXPECT_EQ(reader.passes, 1);
}

TEST(RowLinesReaderTest, ASurveyIsAPassOfItsOwn) {
  FeatureLines reader({.missing = MissingRule::kMean});
  const auto table = reader.Read("2\nNA\n4\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(reader.passes, 2);
  EXPECT_THAT(Floats(table->inputs[0]), ElementsAre(2, 3, 4));
}

TEST(RowLinesReaderTest, ErrorsBeginWithTheLineAndTheColumn) {
  EXPECT_EQ(FeatureLines().Read("2\n\nbad\n").status().message(),
            "line 3 is bad");
  EXPECT_THAT(
      std::string(FeatureLines().Read("2\n\"open\n").status().message()),
      StartsWith("line 2 "));
  EXPECT_THAT(std::string(FeatureLines().Read("2\nNA\n").status().message()),
              StartsWith("line 2 place 0: "));
  FeatureLines survey({.missing = MissingRule::kMean});
  EXPECT_THAT(std::string(survey.Read("NA\nNA\n").status().message()),
              StartsWith("place 0: "));
}

}  // namespace
}  // namespace gpupool::engine
