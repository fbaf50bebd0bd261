#include "engine/backends/cuda/driver/xid_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::engine::cuda {
namespace {

using ::testing::HasSubstr;

TEST(XidCatalogTest, WhatMustBeResetIsSuspect) {
  for (uint32_t code :
       {46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 140, 143, 155, 156, 158}) {
    EXPECT_EQ(ClassifyXid(code), FaultClass::kQuarantine) << code;
    EXPECT_NE(XidText(code), "") << code;
  }
}

TEST(XidCatalogTest, WhatAnApplicationDidLeavesTheGpu) {
  for (uint32_t code : {8, 11, 13, 31, 32, 39, 68, 69, 94}) {
    EXPECT_EQ(ClassifyXid(code), FaultClass::kSticky) << code;
  }
}

TEST(XidCatalogTest, NotesAndUnknownCodesAreNoFaults) {
  for (uint32_t code : {0u, 43u, 63u, 92u, 121u, 9999u, 0xffffffffu}) {
    EXPECT_EQ(ClassifyXid(code), FaultClass::kNone) << code;
  }
}

TEST(XidCatalogTest, CommonErrorReportsHaveAMeaning) {
  EXPECT_THAT(std::string(XidText(79)), HasSubstr("bus"));
  EXPECT_EQ(XidText(9999), "");
}

}  // namespace
}  // namespace gpupool::engine::cuda
