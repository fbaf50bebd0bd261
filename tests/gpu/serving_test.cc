// Serves versions on a GPU: answers in every bucket, versions that are loaded
// and unloaded, and training at the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/loaded_model.h"
#include "tests/gpu/session_on_gpu.h"

namespace gpupool::engine::testing {
namespace {

constexpr uint32_t kRows = 8;
// Allows for float32 sums in a different order.
constexpr float kTolerance = 1e-4f;

class ServingOnGpu : public SessionOnGpu {
 protected:
  // Returns a version of the model after `steps` steps on the host.
  std::string Train(int steps) {
    const auto run = Start(host(), BarsJob(""));
    Losses(*run, steps);
    return Save(*run);
  }
  static std::unique_ptr<LoadedModel> Load(Session& session,
                                           const std::string& manifest,
                                           uint64_t version = 1) {
    auto model = session.LoadModel({.version_id = version,
                                    .name = absl::StrCat("bars/", version),
                                    .manifest_sha256 = manifest,
                                    .max_batch_size = kRows});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
  static std::vector<float> Pixels(uint32_t rows, uint64_t seed) {
    Philox random(seed);
    std::vector<float> pixels(rows * kBarsSide * kBarsSide);
    for (float& x : pixels) x = random.NextFloat();
    return pixels;
  }
};

void ExpectNear(const std::vector<float>& got,
                const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  float largest = 1, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    worst = std::max(worst, std::abs(got[i] - wanted[i]));
  }
  EXPECT_LE(worst, kTolerance * largest);
}

// Each bucket is queued plainly once, then recorded, then replayed.
TEST_F(ServingOnGpu, EveryBucketAnswersAsTheHost) {
  const std::string manifest = Train(20);
  const auto on_host = Load(host(), manifest);
  const auto on_gpu = Load(gpu(), manifest);
  for (const uint32_t rows : {1u, 2u, 3u, 5u, 8u}) {
    SCOPED_TRACE(absl::StrCat(rows, " rows"));
    const std::vector<float> input = Pixels(rows, rows);
    const std::vector<float> plain = Answers(*on_gpu, input);
    ExpectNear(plain, Answers(*on_host, input));
    for (uint64_t run = 0; run < 3; ++run) {
      const std::vector<float> other = Pixels(rows, 100 * run + rows);
      ExpectNear(Answers(*on_gpu, other), Answers(*on_host, other));
      EXPECT_EQ(Answers(*on_gpu, input), plain) << "run " << run;
    }
  }
}

TEST_F(ServingOnGpu, AVersionIsSwappedForAnotherAndItsBytesComeBack) {
  const std::string manifests[] = {Train(5), Train(30)};
  const std::vector<float> input = Pixels(kRows, 1);
  const uint64_t before = gpu().memory_stats().allocated_bytes();
  auto first = Load(gpu(), manifests[0], 1);
  const std::vector<float> old_answers = Answers(*first, input);
  auto second = Load(gpu(), manifests[1], 2);
  const std::vector<float> new_answers = Answers(*second, input);
  EXPECT_NE(old_answers, new_answers);
  EXPECT_EQ(Answers(*first, input), old_answers) << "while both are loaded";
  EXPECT_EQ(gpu().memory_stats().allocated_bytes(),
            before + first->measured_bytes() + second->measured_bytes());
  first.reset();
  EXPECT_EQ(gpu().memory_stats().allocated_bytes(),
            before + second->measured_bytes());
  EXPECT_EQ(Answers(*second, input), new_answers);
  ExpectNear(new_answers, Answers(*Load(host(), manifests[1]), input));
  second.reset();
  EXPECT_EQ(gpu().memory_stats().allocated_bytes(), before);
  gpu().EmptyCache();
  EXPECT_EQ(gpu().memory_stats().reserved_bytes(), 0u);
}

TEST_F(ServingOnGpu, AnswersBetweenStepsLeaveTheTrainingItsBits) {
  const v1::JobSpec job = BarsJob("deterministic: true");
  auto alone = Start(gpu(), job);
  const std::vector<double> wanted = Losses(*alone, 12);
  const std::string bits = Bits(*alone);
  alone.reset();
  const auto model = Load(gpu(), Train(10));
  const std::vector<float> input = Pixels(3, 1);
  const std::vector<float> answers = Answers(*model, input);
  const auto beside = Start(gpu(), job);
  std::vector<double> got;
  for (int step = 0; step < 12; ++step) {
    got.push_back(Losses(*beside, 1).back());
    EXPECT_EQ(Answers(*model, input), answers) << "after step " << step + 1;
  }
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(Bits(*beside), bits);
}

TEST_F(ServingOnGpu, StepsAndAnswersMakeNoAllocatorCalls) {
  const auto model = Load(gpu(), Train(1));
  const auto run = Start(gpu(), BarsJob("precision: BF16"));
  const auto work = [&] {
    Losses(*run, 1);
    for (const uint32_t rows : {1u, 3u, 8u}) Answers(*model, Pixels(rows, 1));
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) work();
  const v1::MemoryStats before = gpu().memory_stats();
  for (int i = 0; i < 20; ++i) work();
  const v1::MemoryStats after = gpu().memory_stats();
  EXPECT_EQ(after.allocations(), before.allocations());
  EXPECT_EQ(after.frees(), before.frees());
  EXPECT_EQ(after.reserved_bytes(), before.reserved_bytes());
}

}  // namespace
}  // namespace gpupool::engine::testing
