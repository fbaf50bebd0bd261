#include "engine/data/npy_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Little;
using files::Npy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ArrayHeader> NpyHeader(const std::string& bytes) {
  auto stream = PlainStream(bytes);
  return ReadNpyHeader(*stream);
}

TEST(NpyReaderTest, ReadsTypeOrderAndShape) {
  auto header = NpyHeader(Npy(">f4", "(3, 4)", ""));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, ElementType::kFloat32);
  EXPECT_TRUE(header->big_endian);
  EXPECT_THAT(header->shape, ElementsAre(3, 4));
  EXPECT_THAT(NpyHeader(Npy("|u1", "(3,)", ""))->shape, ElementsAre(3));
}

TEST(NpyReaderTest, ReadsTheLongHeadersOfVersionTwo) {
  const std::string text =
      "{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}";
  auto header = NpyHeader("\x93NUMPY" + std::string("\2\0", 2) +
                          Little(text.size(), 4) + text);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, ElementType::kInt64);
}

TEST(NpyReaderTest, NamesTheKeyThatIsWrong) {
  EXPECT_THAT(NpyHeader(Npy("|O", "(3,)", "")).status().message(),
              HasSubstr("'descr' is \"\\'|O\\'\""));
  EXPECT_THAT(NpyHeader(Npy("<c8", "(3,)", "")).status().message(),
              HasSubstr("'descr'"));
  EXPECT_THAT(NpyHeader(Npy("<f4", "(3,2)", "", "True")).status().message(),
              HasSubstr("ascontiguousarray"));
  EXPECT_THAT(NpyHeader(Npy("<f4", "(a,)", "")).status().message(),
              HasSubstr("'shape'"));
  EXPECT_THAT(NpyHeader(Npy("<f4", "()", "")).status().message(),
              HasSubstr("1 to 8 dimensions"));
  EXPECT_FALSE(NpyHeader(Npy("<f4", "(-3,)", "")).ok());
  EXPECT_FALSE(
      NpyHeader(Npy("<f4", "(4294967296, 4294967296, 4294967296)", "")).ok());
}

TEST(NpyReaderTest, RefusesWhatIsNoNpyFile) {
  EXPECT_THAT(NpyHeader("garbage bytes").status().message(),
              HasSubstr("not an NPY array"));
  EXPECT_THAT(NpyHeader("\x93NUMPY\x09\x00").status().message(),
              HasSubstr("ends after 7"));
  EXPECT_FALSE(
      NpyHeader("\x93NUMPY" + std::string("\2\0", 2) + Little(0x7fffffff, 4))
          .ok());
}

}  // namespace
}  // namespace gpupool::engine
