#include "engine/runtime/recording_cache.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

// A device that writes down what reaches it: "a" for a run that was queued
// plainly, "[a]" for a capture of it, "<a>" for the start of one.
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

   private:
    WritingDevice* const device_;
    const std::string name_;
  };

  std::optional<std::string> capturing_;
};

class RecordingCacheTest : public testing::Test {
 protected:
  std::unique_ptr<Recording> Record(RecordingCache& cache,
                                    const std::string& name) {
    return cache.Record([this, name] {
      device_.Queue(name);
      return absl::OkStatus();
    });
  }
  // Starts them in turn; what the device did.
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
  RecordingCache cache(&device_, 2);
  const auto a = Record(cache, "a"), b = Record(cache, "b"),
             c = Record(cache, "c");
  Start({a.get(), b.get(), c.get(), a.get(), b.get()});
  EXPECT_EQ(Start({a.get(), c.get()}), "<a>[c]<c>");  // b goes
  EXPECT_EQ(cache.captures(), 2u);
  EXPECT_EQ(cache.evictions(), 1u);
  EXPECT_EQ(device_.alive, 2);
  EXPECT_EQ(Start({a.get(), c.get()}), "<a><c>");
  EXPECT_EQ(Start({b.get(), c.get(), a.get()}), "[b]<b><c>[a]<a>");
  EXPECT_EQ(cache.evictions(), 3u);
  EXPECT_EQ(device_.alive, 2);
}

TEST_F(RecordingCacheTest, OneCaptureIsAlwaysKept) {
  RecordingCache cache(&device_, 1);
  const auto a = Record(cache, "a"), b = Record(cache, "b");
  Start({a.get(), b.get()});
  EXPECT_EQ(Start({a.get(), b.get(), b.get()}), "[a]<a>[b]<b><b>");
  EXPECT_EQ(device_.alive, 1);
}

TEST_F(RecordingCacheTest, ARecordingThatGoesTakesItsCaptureAlong) {
  RecordingCache cache(&device_, 2);
  auto a = Record(cache, "a");
  const auto b = Record(cache, "b"), c = Record(cache, "c");
  Start({a.get(), a.get(), b.get(), b.get(), c.get()});
  a.reset();
  EXPECT_EQ(cache.captures(), 1u);
  EXPECT_EQ(Start({c.get(), b.get()}), "[c]<c><b>");
  EXPECT_EQ(cache.evictions(), 0u);
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
