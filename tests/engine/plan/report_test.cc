#include "engine/plan/report.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(ReportTest, PeakIsPersistentBytesPlusTheLargestArenaPlusResidents) {
  const ProgramBytes train{.arena = 4096,
                           .residents = {{"w", 60}},
                           .gradients = 1024,
                           .activations = 2048,
                           .workspace = 512};
  const ProgramBytes eval{.arena = 1024,
                          .residents = {{"w", 60}, {"", 128}},
                          .gradients = 0,
                          .activations = 1000,
                          .workspace = 24};
  const PlannedBytes report = ReportBytes({640, 1280}, {train, eval});
  EXPECT_EQ(report.weights, 640u);
  EXPECT_EQ(report.optimizer, 1280u);
  EXPECT_EQ(report.gradients, 1024u);
  EXPECT_EQ(report.activations, 2048u);
  EXPECT_EQ(report.workspace, 512u + 64 + 128);
  EXPECT_EQ(report.peak, 640u + 1280 + 4096 + 64 + 128);
  EXPECT_EQ(SharedArenaBytes({eval, train}), 4096u);
}

TEST(ReportTest, OnlyResidentsWithoutAKeyAreCountedAgain) {
  const ProgramBytes program{.residents = {{"w", 64}, {"", 64}, {"v", 1}}};
  EXPECT_EQ(ResidentBytes({program}), 192u);
  EXPECT_EQ(ResidentBytes({program, program}), 256u);
}

TEST(ReportTest, NoProgramNeedsOnlyTheWeights) {
  EXPECT_EQ(ReportBytes({640, 0}, {}).peak, 640u);
  EXPECT_EQ(SharedArenaBytes({}), 0u);
}

}  // namespace
}  // namespace gpupool::engine
