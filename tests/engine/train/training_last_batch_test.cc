// Trains on the shorter last batch of each epoch (data.drop_last: false).
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/philox.h"
#include "engine/runtime/weight_store.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/training_run.h"
#include "tests/engine/standin/queued_backend.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kKeepLast[] = "drop_last: false";

class TrainingLastBatchTest : public RunFixture {
 protected:
  // Returns rows [begin, end) of one sequence: three numbers and a class.
  static std::string Csv(int begin, int end) {
    Philox random(11);
    std::string text;
    for (int i = 0; i < end; ++i) {
      std::string row;
      for (int k = 0; k < 3; ++k)
        absl::StrAppend(&row, random.NextFloat(), ",");
      if (i >= begin) absl::StrAppend(&text, row, i % 3, "\n");
    }
    return text;
  }

  // Returns a job of three epochs with batches of 6 rows.
  static v1::JobSpec Job(const std::string& data,
                         const std::string& training = "") {
    v1::JobSpec spec, change;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("model { input_shape: 3 layers { dense { units: 5 } } "
                     "layers { tanh {} } layers { dense { units: 3 } } } "
                     "data { ",
                     data,
                     " } training { cross_entropy {} adam { learning_rate: "
                     "0.01 } batch_size: 6 epochs: 3 seed: 4 }"),
        &spec));
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("training { ", training, " }"), &change));
    spec.MergeFrom(change);
    return spec;
  }

  // Returns the bytes of all tensors, without the gaps between them.
  static std::string Weights(TrainingRun& run) {
    const auto view = WeightView::Read(run.weights());
    EXPECT_TRUE(view.ok()) << view.status();
    std::string all;
    for (const WeightEntry& entry : view->layout().entries()) {
      const absl::Span<const std::byte> bytes = view->bytes_of(entry);
      all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return all;
  }
};

TEST_F(TrainingLastBatchTest, AnEpochHasAStepMore) {
  const v1::Dataset dataset = StoreCsv(Csv(0, 16));
  auto run = StartRun(Job(kKeepLast), dataset);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)->steps_per_epoch(), 3u);
  EXPECT_EQ((*run)->total_steps(), 9u);
  for (uint32_t step = 1; step <= 9; ++step) {
    ASSERT_TRUE((*run)->Step().ok());
    EXPECT_EQ((*run)->epoch(), (step + 2) / 3);
    EXPECT_EQ((*run)->at_epoch_end(), step % 3 == 0);
  }
  EXPECT_TRUE((*run)->done());
}

TEST_F(TrainingLastBatchTest, TheDefaultIsToDropIt) {
  const v1::Dataset dataset = StoreCsv(Csv(0, 16));
  auto unset = StartRun(Job(""), dataset);
  auto dropped = StartRun(Job("drop_last: true"), dataset);
  ASSERT_TRUE(unset.ok() && dropped.ok());
  EXPECT_EQ((*unset)->steps_per_epoch(), 2u);
  SavedAt(**unset, 6);
  SavedAt(**dropped, 6);
  EXPECT_EQ(Weights(**unset), Weights(**dropped));
}

TEST_F(TrainingLastBatchTest, WithoutARestBothAreTheSame) {
  const v1::Dataset dataset = StoreCsv(Csv(0, 18));
  auto kept = StartRun(Job(kKeepLast), dataset);
  auto dropped = StartRun(Job(""), dataset);
  ASSERT_TRUE(kept.ok() && dropped.ok());
  EXPECT_EQ((*kept)->total_steps(), (*dropped)->total_steps());
  SavedAt(**kept, 9);
  SavedAt(**dropped, 9);
  EXPECT_EQ(Weights(**kept), Weights(**dropped));
}

TEST_F(TrainingLastBatchTest, ItsStepIsThatOfABatchOfItsRows) {
  // The rate of the first step is too low to change a weight, so the second
  // one begins where a job on the last four rows alone does.
  const std::string sgd = "sgd { learning_rate: 0.5 } steps: 2 ";
  auto both = StartRun(
      Job(absl::StrCat(kKeepLast, " shuffle: false"),
          absl::StrCat(sgd,
                       "schedule { constant { factor: 1e-60 steps: 1 } }")),
      StoreCsv(Csv(0, 10)));
  v1::JobSpec own = Job("shuffle: false", sgd);
  own.mutable_training()->set_batch_size(4);
  auto last = StartRun(own, StoreCsv(Csv(6, 10)));
  ASSERT_TRUE(both.ok() && last.ok()) << both.status() << last.status();
  ASSERT_TRUE((*both)->Step().ok());
  EXPECT_EQ(Weights(**both), Weights(**last));
  ASSERT_TRUE((*both)->Step().ok());
  ASSERT_TRUE((*last)->Step().ok());
  EXPECT_EQ(*(*both)->Loss(), *(*last)->Loss());
  EXPECT_EQ(Weights(**both), Weights(**last));
}

TEST_F(TrainingLastBatchTest, AnInterruptedRunEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreCsv(Csv(0, 16));
  for (const char* training :
       {"", "precision: FP16", "ema { decay: 0.5 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 } clip_gradient_norm: 1",
        "recompute { layers: '*' }", "freeze: 'dense_0.*'"}) {
    for (const char* loader : {"", "loader { workers: 2 }"}) {
      SCOPED_TRACE(absl::StrCat(training, " ", loader));
      const v1::JobSpec spec =
          Job(absl::StrCat(kKeepLast, " ", loader), training);
      auto whole = StartRun(spec, dataset);
      ASSERT_TRUE(whole.ok()) << whole.status();
      const std::string wanted = SavedAt(**whole, 9);
      // Before the short step, after it, and within the next epoch.
      for (const uint64_t step : {2u, 3u, 4u}) {
        auto first = StartRun(spec, dataset);
        ASSERT_TRUE(first.ok()) << first.status();
        auto second = StartRun(spec, dataset, SavedAt(**first, step));
        ASSERT_TRUE(second.ok()) << second.status();
        EXPECT_EQ((*second)->step(), step);
        EXPECT_EQ(SavedAt(**second, 9), wanted) << step;
      }
    }
  }
}

TEST_F(TrainingLastBatchTest, BatchesMadeAheadAreTheSame) {
  const v1::Dataset dataset = StoreCsv(Csv(0, 16));
  auto plain = StartRun(Job(kKeepLast), dataset);
  ASSERT_TRUE(plain.ok()) << plain.status();
  SavedAt(**plain, 9);
  for (const char* loader :
       {"workers: 1 prefetch: 1", "workers: 2", "workers: 3 prefetch: 20"}) {
    SCOPED_TRACE(loader);
    auto run = StartRun(
        Job(absl::StrCat(kKeepLast, " loader { ", loader, " }")), dataset);
    ASSERT_TRUE(run.ok()) << run.status();
    SavedAt(**run, 9);
    EXPECT_EQ(Weights(**run), Weights(**plain));
  }
}

TEST_F(TrainingLastBatchTest, TakesTheBytesThatArePlanned) {
  for (const char* training : {"", "recompute { layers: '*' }"}) {
    auto run = StartRun(
        Job(absl::StrCat(kKeepLast, " held_out { last: 5 }"), training),
        StoreCsv(Csv(0, 21)));
    ASSERT_TRUE(run.ok()) << run.status();
    SavedAt(**run, 9);
    ASSERT_TRUE((*run)->Evaluate().ok());
    const v1::MemoryUse memory = (*run)->memory();
    EXPECT_EQ(memory.measured_peak_bytes(), memory.planned_peak_bytes());
  }
}

TEST_F(TrainingLastBatchTest, ABatchThatTheModelCannotTakeIsRefused) {
  v1::JobSpec spec = Job(kKeepLast);
  *spec.mutable_model()->mutable_layers(1) = v1::Layer();
  spec.mutable_model()->mutable_layers(1)->mutable_batch_norm();
  EXPECT_TRUE(StartRun(spec, StoreCsv(Csv(0, 14))).ok());
  const absl::Status one = StartRun(spec, StoreCsv(Csv(0, 13))).status();
  EXPECT_TRUE(absl::IsInvalidArgument(one)) << one;
  EXPECT_THAT(std::string(one.message()),
              StartsWith("data.drop_last is false, and the last batch of an "
                         "epoch has 1 rows: "));
}

TEST_F(TrainingLastBatchTest, AProfileHasItsStepsApart) {
  auto run = StartRun(Job(kKeepLast), StoreCsv(Csv(0, 16)));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->StartProfile(3).ok());
  SavedAt(**run, 3);
  EXPECT_TRUE((*run)->TakeProfile().ok());
}

// On a device that copies batches ahead, the short one is copied on its own.
class CopiedLastBatchTest
    : public TrainingLastBatchTest,
      public ::testing::WithParamInterface<standin::WorkQueue::Pace> {
 protected:
  DeviceContext Queued() { return {&queued_, &device_memory_, blob_dir_}; }

  standin::ProtectedPages pages_;
  standin::HostSide host_;
  standin::QueuedBackend queued_{
      std::make_unique<CpuBackend>(1), &pages_, &host_, {.copies = GetParam()}};
  CachingAllocator device_memory_{"cuda:0", uint64_t{1} << 30, &pages_};
};

TEST_P(CopiedLastBatchTest, WholeBatchesAreStillCopiedAhead) {
  const v1::Dataset dataset = StoreCsv(Csv(0, 16));
  for (const char* loader : {"", " loader { workers: 2 }"}) {
    for (const char* training : {"", "mix { mixup_alpha: 1 }"}) {
      const v1::JobSpec spec = Job(absl::StrCat(kKeepLast, loader), training);
      auto plain = StartRun(spec, dataset);
      auto copied = TrainingRun::Create(
          Queued(),
          {.job_id = 3, .attempt = 1, .spec = spec, .dataset = dataset});
      ASSERT_TRUE(plain.ok() && copied.ok()) << copied.status();
      EXPECT_EQ(SavedAt(**copied, 9), SavedAt(**plain, 9));
      EXPECT_GT(host_.copies_beside, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paces, CopiedLastBatchTest,
                         ::testing::Values(standin::WorkQueue::Pace::kEager,
                                           standin::WorkQueue::Pace::kLate));

}  // namespace
}  // namespace gpupool::engine
