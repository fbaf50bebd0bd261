#include "engine/import/onnx/file/short_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/cord.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::EndsWith;

TEST(ShortStatusTest, WhatFitsStaysAsItIs) {
  EXPECT_TRUE(Shortened(absl::OkStatus()).ok());
  const absl::Status status =
      absl::InvalidArgumentError(std::string(kMaxErrorBytes, 'a'));
  EXPECT_EQ(Shortened(status), status);
}

TEST(ShortStatusTest, LongTextsAreCutAndPayloadsKept) {
  absl::Status status =
      absl::FailedPreconditionError(std::string(kMaxErrorBytes + 1, 'a'));
  status.SetPayload("type", absl::Cord("payload"));
  const absl::Status cut = Shortened(status);
  EXPECT_EQ(cut.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cut.message().size(), kMaxErrorBytes);
  EXPECT_THAT(std::string(cut.message()), EndsWith("aaa ..."));
  EXPECT_EQ(cut.GetPayload("type"), absl::Cord("payload"));
}

TEST(ShortStatusTest, CharactersAreNotCutInHalf) {
  // Characters of two bytes each, with the cut between the two bytes of one.
  std::string text = "a";
  while (text.size() < 2 * kMaxErrorBytes) text += "\xc3\xa9";
  const std::string cut(Shortened(absl::InvalidArgumentError(text)).message());
  EXPECT_LE(cut.size(), kMaxErrorBytes);
  EXPECT_THAT(cut, EndsWith("\xc3\xa9 ..."));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
