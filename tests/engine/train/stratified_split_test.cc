// Splits that keep the shares of the classes, as jobs have them.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/train/job_check.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

v1::JobSpec SpecOf(
    const std::string& training,
    const std::string& rule = "fraction { fraction: 0.5 stratified: true }") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("data { held_out { ", rule,
                   " } } training { adam {} batch_size: 2 epochs: 1 ", training,
                   " }"),
      &spec));
  return spec;
}

std::string ErrorFor(const v1::JobSpec& spec, const LabelFacts& labels) {
  const absl::Status status = CheckTraining(spec, {100, {4}, labels}).status();
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

Column Labels(const std::vector<float>& numbers, const std::string& name = "") {
  Column column = ColumnOf({}, numbers);
  column.name = name;
  column.facts = SummarizeLabels(column);
  return column;
}

TEST(StratifiedSplitTest, NeedsALossOfClasses) {
  const LabelFacts classes = {{}, true, 0, 9};
  for (const char* loss : {"cross_entropy {}", "negative_log_likelihood {}",
                           "bce_with_logits {}"}) {
    EXPECT_EQ(ErrorFor(SpecOf(loss), classes), "") << loss;
  }
  EXPECT_EQ(ErrorFor(SpecOf("mean_squared_error {}"), classes),
            "data.held_out.fraction.stratified keeps the shares of classes, "
            "but mean_squared_error compares numbers; leave stratified out");
  EXPECT_THAT(
      ErrorFor(SpecOf("l1 {}", "fold { of: 3 stratified: true }"), classes),
      HasSubstr("data.held_out.fold.stratified"));
  EXPECT_EQ(ErrorFor(SpecOf("l1 {}", "fold { of: 3 }"), classes), "");
  EXPECT_EQ(ErrorFor(SpecOf("l1 {}", "every: 2"), classes), "");
}

TEST(StratifiedSplitTest, NeedsOneClassNumberARow) {
  const v1::JobSpec spec = SpecOf("cross_entropy {}");
  EXPECT_EQ(ErrorFor(spec, {{1}, true, 0, 9}), "");
  EXPECT_THAT(ErrorFor(spec, {{2, 3}, true, 0, 9}),
              HasSubstr("the labels have the shape [2,3]"));
  EXPECT_THAT(ErrorFor(spec, {{}, false, 0, 9}), HasSubstr("not all whole"));
  EXPECT_THAT(ErrorFor(spec, {{}, true, -1, 9}), HasSubstr("go from -1 to 9"));
  DataFacts unknown;
  unknown.assumed = true;
  unknown.rows = 10;
  EXPECT_TRUE(CheckTraining(spec, unknown).ok())
      << "the dataset does not exist yet";
}

TEST(StratifiedSplitTest, TheClassesAreThoseOfTheLeadingLoss) {
  Table table{.rows = 8};
  table.inputs.push_back(ColumnOf({1}, std::vector<float>(8, 0)));
  table.targets.push_back(Labels({9, 8, 7, 6, 5, 4, 3, 2}, "age"));
  table.targets.push_back(Labels({0, 0, 0, 0, 1, 1, 1, 1}, "kind"));
  const v1::JobSpec spec = SpecOf(
      "losses { output: 'a' target: 'age' l1 {} } "
      "losses { output: 'b' target: 'kind' cross_entropy {} }");
  const auto split = SplitTable(spec, table);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->held_out.size(), 4u);
  EXPECT_LT(split->held_out[1], 4u);
  EXPECT_GE(split->held_out[2], 4u);
}

TEST(StratifiedSplitTest, OtherRulesDoNotReadTheLabels) {
  Table table{.rows = 6};
  table.inputs.push_back(ColumnOf({1}, std::vector<float>(6, 0)));
  table.targets.push_back(Labels({0.5, 1, 2, 3, 4, -5}));
  const v1::JobSpec spec =
      SpecOf("mean_squared_error {}", "fraction { fraction: 0.5 seed: 3 }");
  const auto split = SplitTable(spec, table);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->held_out, SplitRows(spec.data().held_out(), 6)->held_out);
  EXPECT_FALSE(SplitTable(SpecOf("cross_entropy {}"), table).ok());
}

}  // namespace
}  // namespace gpupool::engine
