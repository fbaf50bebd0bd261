// Ranks are processes here, connected by Gloo over the loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/collective/gloo_collective.h"
#include "tests/engine/collective/rank_processes.h"
#include "tests/engine/collective/regression_fixture.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kSeed = 31;
constexpr uint32_t kGlobalBatch = 24;
constexpr int kSteps = 60;

struct Ending {
  int rank = -1;
  int step = -1;
  int signal = 0;
};

// Trains one rank; the text has a line for each step's loss in hexadecimal
// floating point, or the status that ended the training.
std::string Train(const GlooOptions& options, const std::string& folder,
                  const Ending& ending) {
  FolderRendezvous store(folder);
  const auto collective = ConnectGloo(options, &store);
  if (!collective.ok()) return collective.status().ToString();
  const auto regression =
      Regression::Create(kSeed, kGlobalBatch, collective->get());
  if (!regression.ok()) return regression.status().ToString();
  if ((*regression)->buckets() < 2) return "one bucket tests nothing";
  std::string text;
  for (int step = 0; step < kSteps; ++step) {
    if (options.rank == ending.rank && step == ending.step) {
      raise(ending.signal);
    }
    const absl::StatusOr<double> loss = (*regression)->Step();
    if (!loss.ok()) return loss.status().ToString();
    char line[64];
    std::snprintf(line, sizeof(line), "%a\n", *loss);
    text += line;
  }
  return text;
}

class DataParallelTest : public ::testing::Test {
 protected:
  // What each of `ranks` processes says.
  std::vector<std::string> TrainOn(int ranks, const Ending& ending = {},
                                   absl::Duration timeout = absl::Minutes(1)) {
    const std::string group = absl::StrCat("attempt-", ++groups_);
    RankProcesses processes(ranks, [&](int rank) {
      return Train(
          {.rank = rank, .size = ranks, .group = group, .timeout = timeout},
          folder_.path(), ending);
    });
    std::vector<std::string> texts(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      // One that was stopped says nothing until it is killed.
      if (rank == ending.rank) continue;
      texts[static_cast<size_t>(rank)] = processes.Result(rank);
    }
    return texts;
  }

  static std::vector<double> Losses(const std::string& text) {
    std::vector<double> losses;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      losses.push_back(std::strtod(line.c_str(), nullptr));
    }
    return losses;
  }

  ScratchFolder folder_;
  int groups_ = 0;
};

TEST_F(DataParallelTest, TheLossCurveIsThatOfOneDeviceWithTheSameBatch) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const std::vector<double> one = Losses(TrainOn(1)[0]);
  ASSERT_EQ(one.size(), static_cast<size_t>(kSteps));
  // Batches differ, so means of ten are compared.
  EXPECT_LT(std::accumulate(one.end() - 10, one.end(), 0.0),
            0.8 * std::accumulate(one.begin(), one.begin() + 10, 0.0));
  for (const int ranks : {2, 3}) {
    const std::vector<std::string> texts = TrainOn(ranks);
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
    const std::vector<double> many = Losses(texts[0]);
    ASSERT_EQ(many.size(), one.size()) << texts[0];
    for (size_t step = 0; step < one.size(); ++step) {
      EXPECT_NEAR(many[step], one[step], 1e-5 * one[step])
          << ranks << " ranks, step " << step;
    }
  }
}

TEST_F(DataParallelTest, RunsAreBitIdentical) {
  const std::vector<std::string> first = TrainOn(3);
  EXPECT_EQ(first, TrainOn(3));
  EXPECT_EQ(Losses(first[0]).size(), static_cast<size_t>(kSteps)) << first[0];
}

TEST_F(DataParallelTest, AKilledRankIsNamedByTheOther) {
  const auto texts = TrainOn(2, {.rank = 1, .step = 5, .signal = SIGKILL});
  EXPECT_THAT(texts[0], StartsWith("UNAVAILABLE"));
  EXPECT_THAT(texts[0], HasSubstr("rank 1 of 2 is lost"));
}

TEST_F(DataParallelTest, AKilledRankIsNamedByAllOthers) {
  const auto texts = TrainOn(3, {.rank = 0, .step = 3, .signal = SIGKILL});
  for (const int rank : {1, 2}) {
    const std::string& text = texts[static_cast<size_t>(rank)];
    EXPECT_THAT(text, StartsWith("UNAVAILABLE"));
    EXPECT_THAT(text, HasSubstr("rank 0 of 3 is lost"));
  }
}

TEST_F(DataParallelTest, AStoppedRankIsNamedAfterTheTimeout) {
  const auto texts =
      TrainOn(3, {.rank = 2, .step = 4, .signal = SIGSTOP}, absl::Seconds(2));
  for (const int rank : {0, 1}) {
    const std::string& text = texts[static_cast<size_t>(rank)];
    EXPECT_THAT(text, StartsWith("UNAVAILABLE"));
    EXPECT_THAT(text, HasSubstr("rank 2 of 3 is lost"));
  }
}

}  // namespace
}  // namespace gpupool::engine
