// Trains on windows over a series (data.window).
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/train/training_run.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class TrainingWindowsTest : public RunFixture {
 protected:
  // Returns a series of rows of two numbers and a class.
  static std::vector<std::pair<std::string, int>> Series(int rows) {
    Philox random(7);
    std::vector<std::pair<std::string, int>> series;
    for (int i = 0; i < rows; ++i) {
      const auto draw = [&random] {
        return static_cast<double>(random.NextBelow(9)) / 8;
      };
      const double first = draw();
      series.emplace_back(absl::StrCat(first, ",", draw(), ","), i % 3);
    }
    return series;
  }

  static std::string Csv(const std::vector<std::pair<std::string, int>>& rows) {
    std::string text;
    for (const auto& [numbers, label] : rows) {
      absl::StrAppend(&text, numbers, label, "\n");
    }
    return text;
  }

  // Returns a job for three rows of two numbers.
  static v1::JobSpec Job(const std::string& data,
                         const std::string& training = "cross_entropy {}",
                         int units = 3) {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("model { input_shape: [3, 2] layers { flatten {} } "
                     "layers { dense { units: ",
                     units, " } } } data { ", data, " } training { ", training,
                     " adam { learning_rate: 0.01 } batch_size: 4 epochs: 3 "
                     "seed: 4 }"),
        &spec));
    return spec;
  }

  std::string Train(const v1::JobSpec& spec, const v1::Dataset& dataset) {
    auto run = StartRun(spec, dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return "";
    MakeSteps(**run, (*run)->total_steps());
    if (spec.data().has_held_out()) {
      EXPECT_TRUE((*run)->Evaluate().ok());
    }
    return Saved(**run);
  }
};

TEST_F(TrainingWindowsTest, WindowsAreThoseOfRowsThatWereCutBefore) {
  const auto series = Series(21);
  // Windows of three rows, each with the class two rows later.
  std::vector<std::pair<std::string, int>> cut;
  for (size_t i = 0; i + 5 <= series.size(); ++i) {
    cut.emplace_back(
        absl::StrCat(series[i].first, series[i + 1].first, series[i + 2].first),
        series[i + 4].second);
  }
  const v1::Dataset whole = StoreCsv(Csv(series));
  const v1::Dataset before = StoreCsv(Csv(cut));
  const std::string scaled = "scaling { standardize {} } ";
  for (const char* more : {"", "drop_last: false", "loader { workers: 2 }"}) {
    SCOPED_TRACE(more);
    const std::string wanted = Train(Job(absl::StrCat(scaled, more)), before);
    ASSERT_FALSE(wanted.empty());
    EXPECT_EQ(Train(Job(absl::StrCat(scaled, more,
                                     " window { length: 3 horizon: 2 }")),
                    whole),
              wanted);
  }
}

TEST_F(TrainingWindowsTest, HeldOutWindowsAreKeptApart) {
  const v1::Dataset dataset = StoreCsv(Csv(Series(30)));
  // 27 windows, 5 of them held out, and 3 share rows with those.
  auto run =
      StartRun(Job("window { length: 3 } held_out { last: 5 }"), dataset);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)->steps_per_epoch(), 4u) << "19 windows in batches of 4";
  const auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->rows(), 5u);
  EXPECT_THAT(
      std::string(
          StartRun(Job("window { length: 3 } held_out { every: 5 }"), dataset)
              .status()
              .message()),
      HasSubstr("data.held_out would choose windows between others"));
}

TEST_F(TrainingWindowsTest, ASeriesMayPredictItself) {
  const auto series = Series(30);
  // Windows of three rows with the two rows after them as labels.
  std::string cut;
  for (size_t i = 0; i + 5 <= series.size(); ++i) {
    std::string row;
    for (size_t k = 0; k < 5; ++k) row += series[i + k].first;
    row.back() = '\n';  // in place of the last comma
    cut += row;
  }
  v1::Dataset before = StoreCsv(cut);
  for (int column = 6; column < 10; ++column) {
    before.mutable_layout()->add_label_columns(column);
  }
  const std::string wanted = Train(Job("", "mean_squared_error {}", 4), before);
  ASSERT_FALSE(wanted.empty());
  const v1::Dataset whole = StoreCsv(Csv(series));
  EXPECT_EQ(Train(Job("window { length: 3 target_rows: 2 predict_input: true }",
                      "mean_squared_error {}", 4),
                  whole),
            wanted);
  EXPECT_THAT(
      std::string(StartRun(Job("window { length: 3 predict_input: true }",
                               "mean_squared_error {}", 3),
                           whole)
                      .status()
                      .message()),
      HasSubstr("the model's output is [3], but the dataset has labels of "
                "shape [2] a row"));
}

TEST_F(TrainingWindowsTest, AnInterruptedRunEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreCsv(Csv(Series(30)));
  const v1::JobSpec spec =
      Job("window { length: 3 } drop_last: false loader { workers: 2 }");
  auto whole = StartRun(spec, dataset);
  auto first = StartRun(spec, dataset);
  ASSERT_TRUE(whole.ok() && first.ok()) << whole.status();
  auto second = StartRun(spec, dataset, SavedAt(**first, 3));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(SavedAt(**second, 9), SavedAt(**whole, 9));
}

TEST_F(TrainingWindowsTest, AWindowOfAnotherSizeThanTheModelsIsRefused) {
  EXPECT_THAT(std::string(StartRun(Job("window { length: 4 }"),
                                   StoreCsv(Csv(Series(30))))
                              .status()
                              .message()),
              HasSubstr("takes 6 numbers, but a row of the dataset has 8 "
                        "(shape [4,2])"));
}

}  // namespace
}  // namespace gpupool::engine
