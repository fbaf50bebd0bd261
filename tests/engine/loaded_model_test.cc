#include "engine/loaded_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/session_fixture.h"
#include "tests/test_paths.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class LoadedModelTest : public SessionFixture {
 protected:
  static absl::Status InferOne(ServedModel& model, uint32_t rows,
                               absl::Span<const std::byte> input,
                               absl::Span<std::byte> output) {
    return model.Infer({.rows = rows,
                        .inputs = absl::MakeConstSpan(&input, 1),
                        .outputs = absl::MakeConstSpan(&output, 1)},
                       nullptr);
  }
};

// Returns the rows that `held_out { every: 5 }` keeps, with 64 features and the
// label.
std::vector<std::vector<float>> HeldOutDigits() {
  const std::string path = SourcePath("examples/data/digits.csv.gz");
  std::vector<std::vector<float>> rows;
  gzFile file = gzopen(path.c_str(), "rb");
  char line[1024];
  for (int number = 0; gzgets(file, line, sizeof(line)); ++number) {
    if (number % 5 != 4) continue;
    std::istringstream fields(line);
    rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) {
      rows.back().push_back(std::stof(field));
    }
  }
  gzclose(file);
  return rows;
}

TEST_F(LoadedModelTest, AProfileTimesRequestsAndChangesNoAnswer) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 1);
  auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  auto model =
      session_->LoadModel({.version_id = 1,
                           .name = "digits/1",
                           .manifest_sha256 = checkpoint->manifest_sha256(),
                           .max_batch_size = 8});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<float> input(64, 0.5f);
  std::vector<float> before(10), between(10);
  const auto infer = [&](std::vector<float>& output) {
    return InferOne(
        **model, 1,
        {reinterpret_cast<const std::byte*>(input.data()), 4 * input.size()},
        {reinterpret_cast<std::byte*>(output.data()), 4 * output.size()});
  };
  ASSERT_TRUE(infer(before).ok());
  ASSERT_TRUE((*model)->StartProfile(2, 0).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*model)->StartProfile(2, 0)));
  ASSERT_TRUE((*model)->ProfileRequest().ok());
  ASSERT_TRUE(infer(between).ok());
  EXPECT_EQ(before, between);
  ASSERT_TRUE((*model)->ProfileRequest().ok());
  const auto stored = (*model)->TakeProfile();
  ASSERT_TRUE(stored.ok()) << stored.status();
  const std::string trace = ReadFile(blob_dir_ + "/" + stored->sha256);
  EXPECT_EQ(trace.size(), stored->bytes);
  EXPECT_THAT(trace, HasSubstr("\"name\":\"request\""));
  EXPECT_THAT(trace, HasSubstr("\"run\":1"));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"planned bytes\""));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"planned peak\""));
  EXPECT_THAT(trace, Not(HasSubstr("\"run\":2")));
  EXPECT_TRUE(absl::IsFailedPrecondition((*model)->TakeProfile().status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*model)->StartProfile(1, 9)));
  EXPECT_TRUE((*model)->StartProfile(1, 3).ok()) << "the profile has ended";
}

TEST_F(LoadedModelTest, AnswersAsEvaluationDoes) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 200);
  auto evaluation = (*run)->Evaluate();
  auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(evaluation.ok() && checkpoint.ok());
  run->reset();
  session_->ResetPeak();
  auto model =
      session_->LoadModel({.version_id = 1,
                           .name = "digits/1",
                           .manifest_sha256 = checkpoint->manifest_sha256(),
                           .max_batch_size = 24});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_THAT((*model)->inputs(), SizeIs(1));
  ASSERT_THAT((*model)->outputs(), SizeIs(1));
  EXPECT_EQ((*model)->inputs()[0].name(), "input");
  EXPECT_THAT((*model)->inputs()[0].shape(), ElementsAre(-1, 1, 8, 8));
  EXPECT_EQ((*model)->outputs()[0].name(), "output");
  EXPECT_THAT((*model)->outputs()[0].shape(), ElementsAre(-1, 10));
  EXPECT_EQ((*model)->measured_bytes(),
            session_->memory_stats().peak_allocated_bytes());

  // Sends the held-out rows in batches of every size.
  const std::vector<std::vector<float>> rows = HeldOutDigits();
  ASSERT_EQ(rows.size(), 359u);
  size_t correct = 0;
  uint32_t batch = 1;
  for (size_t done = 0; done < rows.size();) {
    const uint32_t count =
        static_cast<uint32_t>(std::min<size_t>(batch, rows.size() - done));
    std::vector<float> input;
    for (uint32_t i = 0; i < count; ++i) {
      input.insert(input.end(), rows[done + i].begin(),
                   rows[done + i].begin() + 64);
    }
    const std::vector<float> output = Answers(**model, input);
    for (uint32_t i = 0; i < count; ++i) {
      const auto* scores = output.data() + i * 10;
      correct += std::max_element(scores, scores + 10) - scores ==
                 static_cast<int>(rows[done + i][64]);
    }
    done += count;
    batch = batch % 24 + 1;
  }
  EXPECT_EQ(correct, std::lround(evaluation->accuracy() * 359));
}

TEST_F(LoadedModelTest, InferChecksRowsAndBytes) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  auto checkpoint = (*run)->SaveCheckpoint();
  auto model =
      session_->LoadModel({.name = "digits/1",
                           .manifest_sha256 = checkpoint->manifest_sha256(),
                           .max_batch_size = 4});
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::byte> input(256 * 5), output(40 * 5);
  auto infer = [&](uint32_t rows, size_t input_bytes, size_t output_bytes) {
    return InferOne(**model, rows, absl::MakeSpan(input).first(input_bytes),
                    absl::MakeSpan(output).first(output_bytes));
  };
  EXPECT_TRUE(infer(4, 256 * 4, 40 * 4).ok());
  EXPECT_THAT(infer(0, 0, 0).message(), HasSubstr("1 to 4"));
  EXPECT_THAT(infer(5, 256 * 5, 40 * 5).message(), HasSubstr("a batch of 5"));
  EXPECT_THAT(infer(1, 255, 40).message(),
              HasSubstr("input 'input' has 255 bytes; 1 row of 256 bytes"));
  EXPECT_THAT(infer(1, 256, 41).message(), HasSubstr("output 'output' has 41"));
  EXPECT_THAT((*model)->Infer({}, nullptr).message(), HasSubstr("has 1 and 1"));
}

}  // namespace
}  // namespace gpupool::engine
