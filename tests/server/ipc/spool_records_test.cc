#include "server/ipc/spool_records.h"

#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using google::protobuf::BytesValue;
using google::protobuf::StringValue;

std::string RecordOf(const std::string& text) {
  StringValue message;
  message.set_value(text);
  return SpoolRecord(message);
}

TEST(SpoolRecordsTest, AreTakenInTheirOrder) {
  const std::string file = RecordOf("one") + RecordOf("") + RecordOf("three");
  absl::string_view bytes = file;
  StringValue message;
  for (const char* text : {"one", "", "three"}) {
    ASSERT_TRUE(TakeSpoolRecord(bytes, &message));
    EXPECT_EQ(message.value(), text);
  }
  EXPECT_TRUE(bytes.empty());
  EXPECT_FALSE(TakeSpoolRecord(bytes, &message));
}

TEST(SpoolRecordsTest, ATruncatedRecordIsNone) {
  const std::string whole = RecordOf("report");
  StringValue message;
  for (size_t size = 0; size < whole.size(); ++size) {
    absl::string_view bytes = absl::string_view(whole).substr(0, size);
    EXPECT_FALSE(TakeSpoolRecord(bytes, &message)) << size;
    EXPECT_EQ(bytes.size(), size);
  }
}

TEST(SpoolRecordsTest, ADamagedRecordIsNone) {
  StringValue message;
  for (size_t at = 0; at < RecordOf("report").size(); ++at) {
    std::string file = RecordOf("report");
    file[at] ^= 1;
    absl::string_view bytes = file;
    EXPECT_FALSE(TakeSpoolRecord(bytes, &message)) << at;
  }
}

TEST(SpoolRecordsTest, ARecordOfSomethingElseIsNone) {
  BytesValue other;
  other.set_value("\xff");  // is no text
  const std::string file = SpoolRecord(other);
  absl::string_view bytes = file;
  StringValue message;
  EXPECT_FALSE(TakeSpoolRecord(bytes, &message));
  EXPECT_EQ(bytes.size(), file.size());
}

TEST(SpoolRecordsTest, ALongerRecordThanAllowedIsNone) {
  const std::string file = RecordOf(std::string(kMaxSpoolRecordBytes + 1, 'x'));
  absl::string_view bytes = file;
  StringValue message;
  EXPECT_FALSE(TakeSpoolRecord(bytes, &message));
}

}  // namespace
}  // namespace gpupool::server
