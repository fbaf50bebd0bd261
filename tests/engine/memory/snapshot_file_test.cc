#include "engine/memory/snapshot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_driver.h"
#include "tests/engine/memory/simulated_timeline.h"
#include "tests/test_paths.h"

namespace gpupool::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Output {
  int status = 0;
  std::string text;
};

Output Execute(const std::string& command) {
  Output output;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[512];
  while (fgets(buffer, sizeof(buffer), pipe) != nullptr) output.text += buffer;
  output.status = ::pclose(pipe);
  return output;
}

bool HasPython() {
  return Execute("/usr/bin/python3 -c 'import pickletools'").status == 0;
}

// An allocator with a history: two streams, blocks that are being freed, holes,
// an allocation that failed, and more than one batch of events.
class SnapshotFileTest : public ::testing::Test {
 protected:
  SnapshotFileTest() {
    EXPECT_TRUE(allocator_.RecordHistory(100000).ok());
    std::mt19937 random(7);
    for (int i = 0; i < 1500; ++i) {
      if (random() % 5 < 3 || live_.empty()) {
        const Owner owner{"job " + std::to_string(random() % 3), "weights"};
        auto block = allocator_.Allocate(
            1 + random() % (random() % 9 == 0 ? 9 * kMiB : 9000), owner,
            {.stream = static_cast<StreamId>(random() % 2)});
        if (block.ok()) live_.push_back(*std::move(block));
      } else {
        std::swap(live_[random() % live_.size()], live_.back());
        live_.back().ResetAfter({{0, counter_ + 1}, {1, counter_ + 1}});
        live_.pop_back();
        if (++counter_ % 5 == 0) PassAll(counter_ - 2);
      }
      if (i % 200 == 199) allocator_.EmptyCache();
    }
    EXPECT_FALSE(allocator_.Allocate(512 * kMiB, {"job 9", "arena"}).ok());
  }
  void PassAll(uint64_t counter) {
    timeline_.Pass({0, counter});
    timeline_.Pass({1, counter});
  }
  std::string Write(int device) {
    const std::string path = ::testing::TempDir() + "snapshot_" +
                             std::to_string(::getpid()) + ".pickle";
    const std::string pickle = SnapshotPickle(allocator_.Snapshot(), device);
    std::ofstream(path, std::ios::binary) << pickle;
    return path;
  }

  SimulatedDriver driver_;
  SimulatedTimeline timeline_;
  CachingAllocator allocator_{"cuda:2", 256 * kMiB, &driver_, &timeline_};
  std::vector<Allocation> live_;
  uint64_t counter_ = 0;
};

TEST_F(SnapshotFileTest, FollowsTheRulesOfTheViewer) {
  if (!HasPython()) GTEST_SKIP() << "no /usr/bin/python3";
  ASSERT_GT(allocator_.Snapshot().events.size(), 1500u);
  const std::string path = Write(2);
  const Output output = Execute(
      "/usr/bin/python3 " +
      SourcePath("tests/engine/memory/check_snapshot.py ") + path + " 2");
  EXPECT_EQ(output.status, 0) << output.text;
  // Recording started with the allocator, so nothing is left before the first
  // event.
  EXPECT_THAT(output.text, HasSubstr("left 0 mapped 0"));
  std::remove(path.c_str());
}

TEST_F(SnapshotFileTest, FollowsTheRulesWhenTheOldestEventsAreForgotten) {
  if (!HasPython()) GTEST_SKIP() << "no /usr/bin/python3";
  ASSERT_TRUE(allocator_.RecordHistory(64).ok());
  for (int i = 0; i < 50; ++i) {
    auto block = allocator_.Allocate(3 * kMiB, {"job 1", "arena"});
    allocator_.EmptyCache();
  }
  const std::string path = Write(0);
  const Output output = Execute(
      "/usr/bin/python3 " +
      SourcePath("tests/engine/memory/check_snapshot.py ") + path + " 0");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("events 64"));
  std::remove(path.c_str());
}

// The tool of PyTorch 1 and 2 reads the list of segments.
TEST_F(SnapshotFileTest, PyTorchsToolReadsItsSegments) {
  if (Execute("/usr/bin/python3 -c 'import torch'").status != 0) {
    GTEST_SKIP() << "no torch in /usr/bin/python3";
  }
  const std::string path = Write(2);
  const Output list = Execute(
      "/usr/bin/python3 -c 'import pickle, sys; "
      "whole = pickle.load(open(sys.argv[1], \"rb\")); "
      "pickle.dump(whole[\"segments\"], open(sys.argv[1], \"wb\"))' " +
      path);
  ASSERT_EQ(list.status, 0) << list.text;
  const Output stats =
      Execute("/usr/bin/python3 -m torch.cuda._memory_viz stats " + path);
  EXPECT_EQ(stats.status, 0) << stats.text;
  // PyTorch 1 prints sums by state, PyTorch 2 a table.
  EXPECT_THAT(stats.text, AnyOf(HasSubstr("active_allocated"),
                                HasSubstr("total_allocated")));
  // The tool loads a script to draw. The data that it would draw comes first.
  const Output segments = Execute(
      "/usr/bin/python3 -c 'import pickle, sys, torch, "
      "torch.cuda._memory_viz as viz; "
      "snapshot = pickle.load(open(sys.argv[1], \"rb\")); "
      "snapshot = snapshot if torch.__version__[0] == \"1\" else "
      "{\"segments\": snapshot}; "
      "print(viz.segments(snapshot, lambda text: text)); "
      "print(viz.memory(snapshot, lambda text: text))' " +
      path);
  EXPECT_EQ(segments.status, 0) << segments.text;
  EXPECT_THAT(segments.text, HasSubstr("active_allocated;job 1:0:weights"));
  EXPECT_THAT(segments.text, HasSubstr("active_pending_free"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace gpupool::engine
