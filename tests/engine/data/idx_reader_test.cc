#include "engine/data/idx_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Big;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ArrayHeader> Header(const std::string& bytes) {
  auto stream = PlainStream(bytes);
  return ReadIdxHeader(*stream);
}

TEST(IdxReaderTest, ReadsTypeAndShape) {
  auto header =
      Header(Big(0x0803, 4) + Big(60000, 4) + Big(28, 4) + Big(28, 4));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, ElementType::kUint8);
  EXPECT_TRUE(header->big_endian);
  EXPECT_THAT(header->shape, ElementsAre(60000, 28, 28));
}

TEST(IdxReaderTest, RefusesWhatIsNoIdxFile) {
  EXPECT_THAT(Header("PK\3\4").status().message(), HasSubstr("not an IDX"));
  EXPECT_THAT(Header(Big(0x0703, 4)).status().message(), HasSubstr("0x07"));
  EXPECT_THAT(Header(Big(0x0800, 4)).status().message(),
              HasSubstr("0 dimensions"));
  EXPECT_THAT(Header(Big(0x0809, 4)).status().message(),
              HasSubstr("9 dimensions"));
  EXPECT_THAT(Header(Big(0x0802, 4) + "\1").status().message(),
              HasSubstr("ends after 1 of 4"));
  EXPECT_FALSE(Header(Big(0x0801, 4) + Big(0, 4)).ok());
  EXPECT_FALSE(Header(Big(0x0803, 4) + std::string(12, '\xff')).ok());
}

}  // namespace
}  // namespace gpupool::engine
