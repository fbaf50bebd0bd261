#include "engine/runtime/recording_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

// A device that records its calls: "a" for a run that was queued plainly, "[a]"
// for its capture, "<a>" for the start of the capture.
class WritingDevice : public Capturer {
 public:
  absl::StatusOr<std::unique_ptr<CapturedRun>> Capture(
      const std::function<absl::Status()>& queue) override {
    if (!broken.ok()) return broken;
    capturing_.emplace();
    const absl::Status queued = queue();
    const std::string name = *std::exchange(capturing_, std::nullopt);
    if (!queued.ok() || name == uncapturable) return nullptr;
    done += "[" + name + "]";
    return std::make_unique<Run>(this, name);
  }
  void Queue(const std::string& name) {
    (capturing_.has_value() ? *capturing_ : done) += name;
  }

  std::string done;
  std::string uncapturable;
  std::map<std::string, uint64_t> bytes;  // of captures by name; else 0
  absl::Status broken;
  int alive = 0;  // captures

 private:
  class Run : public CapturedRun {
   public:
    Run(WritingDevice* device, std::string name)
        : device_(device), name_(std::move(name)) {
      ++device_->alive;
    }
    ~Run() override { --device_->alive; }
    absl::Status Launch() override {
      device_->done += "<" + name_ + ">";
      return absl::OkStatus();
    }
    uint64_t bytes() const override {
      const auto found = device_->bytes.find(name_);
      return found == device_->bytes.end() ? 0 : found->second;
    }

   private:
    WritingDevice* const device_;
    const std::string name_;
  };

  std::optional<std::string> capturing_;
};

class RecordingCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<Recording> Record(RecordingCache& cache,
                                    const std::string& name) {
    return cache.Record([this, name] {
      device_.Queue(name);
      return absl::OkStatus();
    });
  }
  // Starts them in turn and returns the device's calls.
  std::string Start(const std::vector<Recording*>& recordings) {
    device_.done.clear();
    for (Recording* recording : recordings) {
      EXPECT_TRUE(recording->Start().ok());
    }
    return device_.done;
  }

  WritingDevice device_;
};

TEST_F(RecordingCacheTest, ARunIsQueuedThenCapturedThenStartedAsOne) {
  RecordingCache cache(&device_);
  const auto a = Record(cache, "a");
  EXPECT_EQ(Start({a.get(), a.get(), a.get(), a.get()}), "a[a]<a><a><a>");
  EXPECT_EQ(cache.captures(), 1u);
}

TEST_F(RecordingCacheTest, TheOneStartedLongestAgoGoesAndIsCapturedAgain) {
  RecordingCache cache(&device_, {.captures = 2});
  const auto a = Record(cache, "a"), b = Record(cache, "b"),
             c = Record(cache, "c");
  Start({a.get(), b.get(), c.get(), a.get(), b.get()});
  EXPECT_EQ(Start({a.get(), c.get()}), "<a>[c]<c>");  // b is evicted
  EXPECT_EQ(cache.captures(), 2u);
  EXPECT_EQ(cache.evictions(), 1u);
  EXPECT_EQ(device_.alive, 2);
  EXPECT_EQ(Start({a.get(), c.get()}), "<a><c>");
  EXPECT_EQ(Start({b.get(), c.get(), a.get()}), "[b]<b><c>[a]<a>");
  EXPECT_EQ(cache.evictions(), 3u);
  EXPECT_EQ(device_.alive, 2);
}

TEST_F(RecordingCacheTest, OneCaptureIsAlwaysKept) {
  RecordingCache cache(&device_, {.captures = 1});
  const auto a = Record(cache, "a"), b = Record(cache, "b");
  Start({a.get(), b.get()});
  EXPECT_EQ(Start({a.get(), b.get(), b.get()}), "[a]<a>[b]<b><b>");
  EXPECT_EQ(device_.alive, 1);
}

TEST_F(RecordingCacheTest, ARecordingThatGoesTakesItsCaptureAlong) {
  RecordingCache cache(&device_, {.captures = 2});
  auto a = Record(cache, "a");
  const auto b = Record(cache, "b"), c = Record(cache, "c");
  Start({a.get(), a.get(), b.get(), b.get(), c.get()});
  a.reset();
  EXPECT_EQ(cache.captures(), 1u);
  EXPECT_EQ(Start({c.get(), b.get()}), "[c]<c><b>");
  EXPECT_EQ(cache.evictions(), 0u);
}

class RecordingBytesTest : public RecordingCacheTest {
 protected:
  void SetUp() override {
    device_.bytes = {{"a", 40}, {"b", 60}, {"c", 1}, {"d", 100}, {"e", 101}};
  }

  RecordingCounters counters_;
  std::vector<std::string> log_;
  RecordingCache cache_{
      &device_,
      {.captures = 3,
       .bytes = 100,
       .counters = &counters_,
       .log = [this](absl::string_view line) { log_.emplace_back(line); }}};
};

TEST_F(RecordingBytesTest, CapturesMayTakeTheLimitAndNoByteMore) {
  const auto a = Record(cache_, "a"), b = Record(cache_, "b"),
             c = Record(cache_, "c");
  Start({a.get(), b.get(), c.get(), a.get(), b.get()});
  EXPECT_EQ(cache_.captures(), 2u);
  EXPECT_EQ(cache_.bytes(), 100u);
  EXPECT_EQ(counters_.bytes, 100u);
  EXPECT_EQ(Start({c.get()}), "[c]<c>");  // a, started before b, is evicted
  EXPECT_EQ(cache_.bytes(), 61u);
  EXPECT_EQ(cache_.evictions(), 1u);
  EXPECT_EQ(Start({b.get(), c.get(), a.get()}), "<b><c>[a]<a>");
  EXPECT_EQ(cache_.bytes(), 41u);  // b had to go, but not c
  EXPECT_EQ(device_.alive, 2);
}

TEST_F(RecordingBytesTest, SeveralGoUntilBothBoundsHold) {
  const auto a = Record(cache_, "a"), c = Record(cache_, "c"),
             d = Record(cache_, "d");
  Start({a.get(), c.get(), d.get(), a.get(), c.get()});
  EXPECT_EQ(cache_.captures(), 2u);
  EXPECT_EQ(Start({d.get()}), "[d]<d>");  // as large as the limit
  EXPECT_EQ(cache_.captures(), 1u);
  EXPECT_EQ(cache_.bytes(), 100u);
  EXPECT_EQ(counters_.captures, 1u);
  EXPECT_EQ(counters_.evictions, 2u);
  EXPECT_EQ(device_.alive, 1);
}

TEST_F(RecordingBytesTest, TheCountHoldsWhereBytesWouldNot) {
  const auto c = Record(cache_, "c"), x = Record(cache_, "x"),
             y = Record(cache_, "y"), z = Record(cache_, "z");
  Start({c.get(), x.get(), y.get(), z.get()});
  Start({c.get(), x.get(), y.get(), z.get()});
  EXPECT_EQ(cache_.captures(), 3u);
  EXPECT_EQ(cache_.bytes(), 0u);
}

TEST_F(RecordingBytesTest, OneOverTheLimitRunsPlainlyForEverAndIsSaidOnce) {
  const auto a = Record(cache_, "a"), e = Record(cache_, "e"),
             other = Record(cache_, "e");
  Start({a.get(), a.get()});
  EXPECT_EQ(Start({e.get(), e.get(), e.get()}), "e[e]ee");
  EXPECT_EQ(Start({other.get(), other.get(), a.get()}), "e[e]e<a>");
  EXPECT_EQ(cache_.bytes(), 40u);  // nothing was evicted for them
  EXPECT_EQ(device_.alive, 1);
  EXPECT_EQ(counters_.refusals, 2u);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_THAT(log_[0], ::testing::HasSubstr("takes 101 bytes"));
  EXPECT_THAT(log_[0], ::testing::HasSubstr("more than the 100"));
}

TEST_F(RecordingBytesTest, ARecordingThatGoesGivesItsBytesBack) {
  auto a = Record(cache_, "a"), b = Record(cache_, "b");
  Start({a.get(), a.get(), b.get(), b.get()});
  a.reset();
  EXPECT_EQ(cache_.bytes(), 60u);
  b.reset();
  EXPECT_EQ(counters_.bytes, 0u);
  EXPECT_EQ(counters_.captures, 0u);
  EXPECT_EQ(counters_.evictions, 0u);
}

TEST_F(RecordingBytesTest, BackEndsOfADeviceCountTogether) {
  RecordingCache other(&device_, {.bytes = 100, .counters = &counters_});
  const auto a = Record(cache_, "a"), b = Record(other, "b");
  Start({a.get(), a.get(), b.get(), b.get()});
  EXPECT_EQ(counters_.captures, 2u);
  EXPECT_EQ(counters_.bytes, 100u);
}

TEST(RecordingLimitTest, ItIsAShareOfTheDeviceUpToABound) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_EQ(RecordingBytes(0), 0u);
  EXPECT_EQ(RecordingBytes(16384 * kMiB), 64 * kMiB);
  EXPECT_EQ(RecordingBytes(65536 * kMiB), 256 * kMiB);
  EXPECT_EQ(RecordingBytes(65536 * kMiB + 1), 256 * kMiB);
  EXPECT_EQ(RecordingBytes(144384 * kMiB), 256 * kMiB);
  EXPECT_EQ(BackendRecordingBytes(16384 * kMiB), 32 * kMiB);
}

TEST_F(RecordingCacheTest, WhatCannotBeCapturedIsQueuedForEver) {
  RecordingCache cache(&device_);
  device_.uncapturable = "a";
  const auto a = Record(cache, "a");
  EXPECT_EQ(Start({a.get(), a.get(), a.get()}), "aaa");
  EXPECT_EQ(cache.captures(), 0u);
}

TEST_F(RecordingCacheTest, ABrokenDeviceIsNotAskedToRun) {
  RecordingCache cache(&device_);
  const auto a = Record(cache, "a");
  Start({a.get()});
  device_.broken = absl::UnavailableError("the context is lost");
  EXPECT_EQ(a->Start(), device_.broken);
  EXPECT_EQ(device_.done, "a");
}

}  // namespace
}  // namespace gpupool::engine
