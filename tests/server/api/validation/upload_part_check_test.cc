#include "server/api/validation/upload_part_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::UploadPart Part(const std::string& key, uint64_t offset) {
  v1::UploadPart part;
  part.set_upload_key(key);
  part.set_offset(offset);
  return part;
}

void RefusesPart(const absl::Status& status, const std::string& fragment) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
}

TEST(UploadPartCheckTest, KeysHave32To64HexDigits) {
  EXPECT_TRUE(CheckUploadKey("upload_key", std::string(32, 'a')).ok());
  EXPECT_TRUE(CheckUploadKey("upload_key", std::string(64, '9')).ok());
  RefusesPart(CheckUploadKey("upload_key", ""), "upload_key is");
  RefusesPart(CheckUploadKey("upload_key", "../../etc/passwd"), "passwd");
  RefusesPart(CheckUploadKey("upload_key", std::string(64, 'A')), "lower-case");
}

TEST(UploadPartCheckTest, OffsetsAreInTheFile) {
  const std::string key(32, 'a');
  EXPECT_TRUE(CheckUploadPart("part", Part("", 0), 5).ok());
  EXPECT_TRUE(CheckUploadPart("part", Part(key, 0), 5).ok());
  EXPECT_TRUE(CheckUploadPart("part", Part(key, 5), 5).ok());
  RefusesPart(CheckUploadPart("part", Part(key, 6), 5), "part.offset is 6");
  RefusesPart(CheckUploadPart("part", Part(key, UINT64_MAX), 5), "5 bytes");
  RefusesPart(CheckUploadPart("part", Part("", 1), 5), "without an upload_key");
  RefusesPart(CheckUploadPart("part", Part("x", 1), 5), "part.upload_key is");
}

TEST(UploadPartCheckTest, PartsAreNoneOrOneForEachFile) {
  v1::UploadDatasetRequest::Header header;
  header.add_files()->set_total_bytes(5);
  header.add_files()->set_total_bytes(7);
  EXPECT_TRUE(CheckUploadParts(header).ok());
  *header.add_parts() = Part(std::string(32, 'a'), 5);
  RefusesPart(CheckUploadParts(header), "parts has 1 entries for 2 files");
  *header.add_parts() = Part(std::string(32, 'b'), 7);
  EXPECT_TRUE(CheckUploadParts(header).ok());
  header.mutable_parts(1)->set_offset(8);
  RefusesPart(CheckUploadParts(header), "parts[1].offset is 8");
}

}  // namespace
}  // namespace gpupool::server
