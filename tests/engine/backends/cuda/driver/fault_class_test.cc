#include "engine/backends/cuda/driver/fault_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::engine::cuda {
namespace {

using ::testing::HasSubstr;

TEST(FaultClassTest, TheDeclaredFatalCodesEndTheProcess) {
  for (const int code : {226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719,
                         721, 810, 911, 4, 214}) {
    EXPECT_TRUE(EndsProcess(ClassifyFault(code))) << code;
  }
}

TEST(FaultClassTest, WhatLeavesTheContextSoundDoesNot) {
  for (const int code :
       {0, 1, 2, 9, 98, 600, 701, 704, 720, 801, 900, 904, 908, 910}) {
    EXPECT_FALSE(EndsProcess(ClassifyFault(code))) << code;
  }
  EXPECT_EQ(ClassifyFault(2), FaultClass::kOutOfMemory);
  EXPECT_EQ(ClassifyFault(1), FaultClass::kRecoverable);
}

TEST(FaultClassTest, AnUncorrectableMemoryErrorQuarantinesTheGpu) {
  EXPECT_EQ(ClassifyFault(214), FaultClass::kQuarantine);
}

TEST(FaultClassTest, NoDriverIsNoFaultOfTheProcess) {
  for (const int code : {35, 100, 101, 803}) {
    EXPECT_EQ(ClassifyFault(code), FaultClass::kUnavailable) << code;
  }
}

TEST(FaultClassTest, AStatusNamesTheCallAndTheCodeAndKeepsItsClass) {
  EXPECT_TRUE(FaultStatus(0, "cudaSuccess", "no error", "launch").ok());
  const absl::Status status = FaultStatus(
      700, "cudaErrorIllegalAddress", "an illegal address", "layer \"dense\"");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("layer \"dense\": an illegal address (CUDA error 700, "
                        "cudaErrorIllegalAddress)"));
  EXPECT_EQ(FaultOf(status), FaultClass::kSticky);
  EXPECT_EQ(FaultOf(absl::UnavailableError("something else")),
            FaultClass::kNone);
}

TEST(FaultClassTest, EveryClassHasItsStatusCode) {
  const auto code = [](int fault) {
    return FaultStatus(fault, "name", "text", "what").code();
  };
  EXPECT_EQ(code(2), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(100), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(214), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(1), absl::StatusCode::kInternal);
}

TEST(FaultClassTest, ASuspectGpuIsKnownWithoutAFailedCall) {
  const absl::Status status = SuspectStatus("the driver has lost the GPU");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "the driver has lost the GPU");
  EXPECT_EQ(FaultOf(status), FaultClass::kQuarantine);
}

}  // namespace
}  // namespace gpupool::engine::cuda
