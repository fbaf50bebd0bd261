#include "server/worker/injected_fault.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/fault_class.h"
#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using engine::cuda::FaultClass;
using engine::cuda::FaultOf;

class InjectedFaultTest : public ::testing::Test {
 protected:
  void Write(const std::string& line) { std::ofstream(path_) << line; }
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".done");
  }
  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "/fault-", ::getpid());
  const InjectedFault fault_{path_};
};

TEST_F(InjectedFaultTest, NothingHappensWithoutAFile) {
  EXPECT_TRUE(fault_.BeforeStep(1).ok());
  EXPECT_TRUE(InjectedFault("").BeforeStep(1).ok());
}

TEST_F(InjectedFaultTest, TheFaultComesAtItsStepAndOnce) {
  Write("sticky 3");
  EXPECT_TRUE(fault_.BeforeStep(2).ok());
  EXPECT_EQ(FaultOf(fault_.BeforeStep(3)), FaultClass::kSticky);
  EXPECT_TRUE(fault_.BeforeStep(3).ok());
  EXPECT_TRUE(std::filesystem::exists(path_ + ".done"));
}

TEST_F(InjectedFaultTest, ASuspectDeviceIsAClassOfItsOwn) {
  Write("suspect 1");
  EXPECT_EQ(FaultOf(fault_.BeforeStep(1)), FaultClass::kQuarantine);
}

TEST_F(InjectedFaultTest, AWriteHasFaultsOfItsOwn) {
  Write("full-write 0");
  EXPECT_TRUE(fault_.BeforeStep(1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fault_.BeforeWrite(7)));
  EXPECT_TRUE(fault_.BeforeWrite(7).ok());
  Write("full-write 3");
  EXPECT_TRUE(fault_.BeforeWrite(2).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fault_.BeforeWrite(3)));
  Write("sticky 3");
  EXPECT_TRUE(fault_.BeforeWrite(3).ok());
}

TEST_F(InjectedFaultTest, ACopyHasOneOfItsOwn) {
  Write("no-room 0");
  EXPECT_TRUE(fault_.BeforeStep(1).ok());
  EXPECT_TRUE(fault_.BeforeWrite(1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fault_.BeforeCopy(1)));
  EXPECT_TRUE(fault_.BeforeCopy(1).ok());
}

TEST_F(InjectedFaultTest, AWriteIsHeldUntilTheFileGoes) {
  Write("hold-write 3");
  std::thread writer([this] { EXPECT_TRUE(fault_.BeforeWrite(3).ok()); });
  while (!std::filesystem::exists(path_ + ".done")) std::this_thread::yield();
  std::filesystem::remove(path_ + ".done");
  writer.join();
}

TEST_F(InjectedFaultTest, AStepIsHeldUntilTheFileGoes) {
  Write("hold-step 3");
  EXPECT_TRUE(fault_.BeforeStep(2).ok());
  std::atomic<bool> begun{false};
  std::thread trainer([&] {
    EXPECT_TRUE(fault_.BeforeStep(3).ok());
    begun = true;
  });
  while (!std::filesystem::exists(path_ + ".done")) std::this_thread::yield();
  LetOthersRun();
  EXPECT_FALSE(begun);
  std::filesystem::remove(path_ + ".done");
  trainer.join();
}

TEST_F(InjectedFaultTest, ALoadEndsTheProcessEachTime) {
  Write("abort-load bad/1");
  fault_.BeforeLoad("good/1");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EXIT(fault_.BeforeLoad("bad/1"), ::testing::KilledBySignal(SIGABRT),
                "");
  }
  EXPECT_TRUE(fault_.BeforeStep(1).ok());
}

TEST_F(InjectedFaultTest, NonsenseIsIgnored) {
  Write("sticky soon");
  EXPECT_TRUE(fault_.BeforeStep(1).ok());
}

}  // namespace
}  // namespace gpupool::server
