#include "audit/lost_number.h"

#include <gtest/gtest.h>

#include "tests/audit/audit_files.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::audit {
namespace {

TEST(LostNumberTest, ANumberIsReadAfterAStart) {
  const server::TempDir folder;
  {
    LostNumber lost;
    ASSERT_TRUE(lost.Open(folder.path()).ok());
    EXPECT_EQ(lost.number(), 0u);
    EXPECT_EQ(TextOf(folder / kLostNumberName).size(), LostNumber::kDigits)
        << "the bytes are there before the disk is full";
    ASSERT_TRUE(lost.Keep(4096).ok());
  }
  LostNumber lost;
  ASSERT_TRUE(lost.Open(folder.path()).ok());
  EXPECT_EQ(lost.number(), 4096u);
  EXPECT_TRUE(lost.Keep(0).ok());
  EXPECT_EQ(TextOf(folder / kLostNumberName), std::string(20, '0'));
}

TEST(LostNumberTest, AnotherFormIsZero) {
  const server::TempDir folder;
  SetText(folder / kLostNumberName, "x");
  LostNumber lost;
  ASSERT_TRUE(lost.Open(folder.path()).ok());
  EXPECT_EQ(lost.number(), 0u);
}

TEST(LostNumberTest, AFileThatCannotBeOpenedIsAnError) {
  const server::TempDir folder;
  LostNumber lost;
  EXPECT_FALSE(lost.Open(folder / "none").ok());
  EXPECT_FALSE(lost.Keep(1).ok());
}

}  // namespace
}  // namespace gpupool::audit
