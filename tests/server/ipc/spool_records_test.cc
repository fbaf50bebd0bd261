#include "server/ipc/spool_records.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

TEST(SpoolRecordsTest, AreTakenInTheirOrder) {
  const std::string file =
      SpoolRecord("one") + SpoolRecord("") + SpoolRecord("three");
  absl::string_view bytes = file;
  EXPECT_EQ(TakeSpoolRecord(bytes), "one");
  EXPECT_EQ(TakeSpoolRecord(bytes), "");
  EXPECT_EQ(TakeSpoolRecord(bytes), "three");
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(TakeSpoolRecord(bytes), std::nullopt);
}

TEST(SpoolRecordsTest, ATruncatedRecordIsNone) {
  const std::string whole = SpoolRecord("report");
  for (size_t size = 0; size < whole.size(); ++size) {
    absl::string_view bytes = absl::string_view(whole).substr(0, size);
    EXPECT_EQ(TakeSpoolRecord(bytes), std::nullopt) << size;
    EXPECT_EQ(bytes.size(), size);
  }
}

TEST(SpoolRecordsTest, ADamagedRecordIsNone) {
  for (size_t at = 0; at < SpoolRecord("report").size(); ++at) {
    std::string file = SpoolRecord("report");
    file[at] ^= 1;
    absl::string_view bytes = file;
    EXPECT_EQ(TakeSpoolRecord(bytes), std::nullopt) << at;
  }
}

TEST(SpoolRecordsTest, ALongerRecordThanAllowedIsNone) {
  const std::string file =
      SpoolRecord(std::string(kMaxSpoolRecordBytes + 1, 'x'));
  absl::string_view bytes = file;
  EXPECT_EQ(TakeSpoolRecord(bytes), std::nullopt);
}

}  // namespace
}  // namespace gpupool::server
