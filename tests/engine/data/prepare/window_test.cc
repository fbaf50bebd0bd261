#include "engine/data/prepare/window.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/base/row_windows.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::DataSpec DataOf(const std::string& text) {
  v1::DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data));
  return data;
}

// Returns a series of rows {10 i, 10 i + 1} with labels 100 + i.
Table Series(uint32_t rows) {
  std::vector<float> numbers, labels;
  for (uint32_t i = 0; i < rows; ++i) {
    numbers.push_back(static_cast<float>(10 * i));
    numbers.push_back(static_cast<float>(10 * i + 1));
    labels.push_back(static_cast<float>(100 + i));
  }
  Table table;
  table.rows = rows;
  table.inputs.push_back(ColumnOf({2}, numbers));
  table.targets.push_back(ColumnOf({}, labels));
  table.targets[0].facts = SummarizeLabels(table.targets[0]);
  return table;
}

std::vector<float> RowsOf(const Column& column,
                          const std::vector<uint32_t>& rows) {
  std::vector<float> numbers(rows.size() * column.width);
  Gather(column, rows, absl::MakeSpan(numbers));
  return numbers;
}

TEST(WindowTest, NumbersAreChecked) {
  EXPECT_TRUE(CheckWindow(DataOf("")).ok());
  EXPECT_TRUE(CheckWindow(DataOf("window { length: 65536 horizon: 0 }")).ok());
  const std::pair<const char*, const char*> cases[] = {
      {"", "data.window.length is 0; it must be 1 .. 65536"},
      {"length: 65537", "data.window.length is 65537"},
      {"length: 1 stride: 65537", "data.window.stride is 65537"},
      {"length: 1 horizon: 70000", "data.window.horizon is 70000"},
      {"length: 1 target_rows: 70000", "data.window.target_rows is 70000"},
      {"length: 1 horizon: 0 predict_input: true",
       "data.window.horizon is 0 with predict_input"},
      {"length: 4 targets: NEXT_OF_EACH horizon: 1",
       "data.window.targets is NEXT_OF_EACH, which gives targets their place"},
      {"length: 4 targets: SAME target_rows: 4",
       "data.window.targets is SAME, which gives targets their place"},
  };
  for (const auto& [window, error] : cases) {
    const absl::Status status =
        CheckWindow(DataOf(std::string("window { ") + window + " }"));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << window;
    EXPECT_THAT(std::string(status.message()), HasSubstr(error));
  }
}

// Counts windows one by one.
TEST(WindowTest, CountsAreThoseOfEveryBeginning) {
  for (uint64_t length : {1u, 3u, 8u}) {
    for (uint64_t stride : {1u, 2u, 5u, 40u}) {
      for (uint64_t horizon : {0u, 1u, 4u}) {
        for (uint64_t target_rows : {1u, 3u}) {
          const RowWindows windows = {length, stride, horizon, target_rows};
          for (uint64_t rows = 0; rows < 60; ++rows) {
            uint64_t count = 0;
            for (uint64_t begin = 0;; begin += stride) {
              const uint64_t last = begin + length - 1 + horizon + target_rows;
              if (last > rows) break;
              ++count;
            }
            ASSERT_EQ(windows.CountIn(rows), count);
            if (count == 0) continue;
            ASSERT_LE(windows.RowsFor(count), rows);
            ASSERT_EQ(windows.CountIn(windows.RowsFor(count)), count);
          }
        }
      }
    }
  }
}

TEST(WindowTest, InputsAreConsecutiveRowsAndTargetsFollow) {
  auto table = WindowTable(DataOf("window { length: 3 }"), Series(6));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 3u);
  EXPECT_THAT(table->features().shape, ElementsAre(3, 2));
  EXPECT_THAT(RowsOf(table->features(), {2, 0}),
              ElementsAre(20, 21, 30, 31, 40, 41, 0, 1, 10, 11, 20, 21));
  EXPECT_TRUE(table->labels().shape.empty());
  EXPECT_THAT(RowsOf(table->labels(), {2, 0}), ElementsAre(105, 103));
  EXPECT_TRUE(table->labels().facts.whole);
  EXPECT_EQ(table->labels().facts.maximum, 105);
}

TEST(WindowTest, TargetsMayBeTheNextRowOfEach) {
  auto table = WindowTable(
      DataOf("window { length: 3 stride: 2 targets: NEXT_OF_EACH }"),
      Series(6));
  ASSERT_TRUE(table.ok()) << table.status();
  // The windows begin at rows 0 and 2.
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->labels().shape, ElementsAre(3));
  EXPECT_THAT(RowsOf(table->labels(), {0, 1}),
              ElementsAre(101, 102, 103, 103, 104, 105));
  EXPECT_EQ(
      WindowTable(DataOf("window { length: 3 targets: NEXT_OF_EACH }"),
                  Series(3))
          .status()
          .message(),
      "data.window needs 4 rows for one window (length 3, targets "
      "NEXT_OF_EACH), but the dataset has 3; lower one of them, or upload a "
      "longer series");
}

TEST(WindowTest, TargetsMayBeTheRowsOfTheInput) {
  auto table =
      WindowTable(DataOf("window { length: 3 targets: SAME }"), Series(4));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(RowsOf(table->labels(), {1}), ElementsAre(101, 102, 103));
  table = WindowTable(
      DataOf("window { length: 2 targets: SAME predict_input: true }"),
      Series(2));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->labels().shape, ElementsAre(2, 2));
  EXPECT_THAT(RowsOf(table->labels(), {0}), ElementsAre(0, 1, 10, 11));
}

TEST(WindowTest, StrideHorizonAndTargetRows) {
  auto table = WindowTable(
      DataOf("window { length: 2 stride: 3 horizon: 2 target_rows: 2 }"),
      Series(9));
  ASSERT_TRUE(table.ok()) << table.status();
  // The windows begin at rows 0 and 3, and their targets at 3 and 6.
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(RowsOf(table->features(), {0, 1}),
              ElementsAre(0, 1, 10, 11, 30, 31, 40, 41));
  EXPECT_THAT(table->labels().shape, ElementsAre(2));
  EXPECT_THAT(table->labels().facts.shape, ElementsAre(2));
  EXPECT_THAT(RowsOf(table->labels(), {0, 1}), ElementsAre(103, 104, 106, 107));
}

TEST(WindowTest, HorizonZeroIsTheLabelOfTheLastRow) {
  auto table =
      WindowTable(DataOf("window { length: 4 horizon: 0 }"), Series(5));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(RowsOf(table->labels(), {0, 1}), ElementsAre(103, 104));
}

TEST(WindowTest, TheInputItselfMayBeTheTarget) {
  auto table = WindowTable(DataOf("window { length: 2 predict_input: true }"),
                           Series(4));
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->targets.size(), 1u);
  EXPECT_THAT(table->labels().shape, ElementsAre(2));
  EXPECT_THAT(RowsOf(table->labels(), {0, 1}), ElementsAre(20, 21, 30, 31));
  EXPECT_FALSE(table->labels().facts.whole);
  Table two = Series(4);
  two.inputs.push_back(two.inputs[0]);
  EXPECT_THAT(
      std::string(
          WindowTable(DataOf("window { length: 2 predict_input: true }"), two)
              .status()
              .message()),
      HasSubstr("for datasets with one input, but this one has 2"));
}

TEST(WindowTest, WindowsShareTheBytesOfTheSeries) {
  const Table series = Series(100);
  const char* const begin = series.features().data;
  auto table = WindowTable(DataOf("window { length: 50 }"), series);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->features().data, begin);
  EXPECT_EQ(table->features().memory, series.features().memory);
  // The last row of the series is a target only.
  EXPECT_EQ(table->features().host_bytes(), 99u * 2 * sizeof(float));
  EXPECT_EQ(series.features().host_bytes(), 100u * 2 * sizeof(float));
}

TEST(WindowTest, NumbersOfAllRowsAreInTheirOrder) {
  auto table = WindowTable(DataOf("window { length: 2 stride: 3 }"), Series(9));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 3u);
  const std::vector<float> all = {0, 1, 10, 11, 30, 31, 40, 41, 60, 61, 70, 71};
  EXPECT_EQ(Floats(table->features()), all);
  std::vector<int64_t> some(5);
  Convert(table->features(), 3, absl::MakeSpan(some));
  EXPECT_THAT(some, ElementsAre(11, 30, 31, 40, 41));
  EXPECT_EQ(FirstUnusable(table->features()), all.size());
  EXPECT_FALSE(FirstNotWhole(table->features(), 1000).has_value());
  const auto found = FirstNotWhole(table->features(), 40);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->position, 7u);
  EXPECT_EQ(found->number, 41);
}

TEST(WindowTest, ASeriesThatIsTooShortIsRefused) {
  EXPECT_EQ(WindowTable(DataOf("window { length: 5 horizon: 2 }"), Series(6))
                .status()
                .message(),
            "data.window needs 7 rows for one window (length 5, horizon 2, "
            "target rows 1), but the dataset has 6; lower one of them, or "
            "upload a longer series");
  EXPECT_TRUE(
      WindowTable(DataOf("window { length: 5 horizon: 2 }"), Series(7)).ok());
}

TEST(WindowTest, HeldOutWindowsShareNoRowWithTrainedOnes) {
  for (const char* window :
       {"length: 4", "length: 4 stride: 3", "length: 2 horizon: 5",
        "length: 3 stride: 4 target_rows: 2", "length: 5 horizon: 0",
        "length: 4 targets: NEXT_OF_EACH", "length: 4 targets: SAME"}) {
    SCOPED_TRACE(window);
    const v1::DataSpec data =
        DataOf(std::string("window { ") + window + " } held_out { last: 6 }");
    const RowWindows windows = RowWindowsOf(data.window());
    const uint64_t count = windows.CountIn(100);
    const auto sizes = CountSplitApart(data, count);
    ASSERT_TRUE(sizes.ok()) << sizes.status();
    EXPECT_EQ(sizes->held_out, 6u);
    const uint64_t first_row = (count - 6) * windows.stride;
    const auto end_of = [&](uint64_t i) {
      return i * windows.stride + windows.span();
    };
    EXPECT_LE(end_of(sizes->training - 1), first_row);
    // No window is left out without need.
    EXPECT_GT(end_of(sizes->training), first_row);
  }
}

TEST(WindowTest, RulesThatWouldLeakAreRefused) {
  const auto error = [](const std::string& data, uint64_t windows) {
    return std::string(
        CountSplitApart(DataOf(data), windows).status().message());
  };
  EXPECT_EQ(error("window { length: 4 } held_out { every: 5 }", 100),
            "data.held_out would choose windows between others, but each "
            "shares rows with the 4 before it, so held-out rows would be "
            "trained on; set held_out.last or data.validation, or "
            "data.window.stride to at least 5");
  EXPECT_EQ(error("window { length: 4 stride: 5 } held_out { every: 5 }", 100),
            "");
  EXPECT_EQ(error("window { length: 4 }", 100), "") << "all are trained on";
  EXPECT_EQ(error("held_out { every: 5 }", 100), "");
  EXPECT_THAT(error("window { length: 4 } held_out { last: 8 }", 12),
              HasSubstr("is 8 of 12 windows, and the 4 before them share"));
  EXPECT_EQ(error("window { length: 4 } held_out { last: 7 }", 12), "");
}

TEST(WindowTest, ReadsTheWindowsOfADataset) {
  v1::Dataset dataset;
  dataset.set_rows(10);
  dataset.add_feature_shape(3);
  dataset.set_feature_type(v1::FLOAT32);
  const auto table =
      ReadRows(DataOf("window { length: 4 }"), dataset, "", ReadLimits());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 6u);
  EXPECT_THAT(table->features().shape, ElementsAre(4, 3));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadRows(DataOf("window {}"), dataset, "", ReadLimits()).status()));
  EXPECT_EQ(ReadRows(DataOf(""), dataset, "", ReadLimits())->rows, 10u);
}

}  // namespace
}  // namespace gpupool::engine
