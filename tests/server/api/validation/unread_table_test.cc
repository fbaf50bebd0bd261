#include "server/api/validation/unread_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(CheckTableNameTest, NamesTheFormatAndTheRemedy) {
  const std::pair<const char*, const char*> rows[] = {
      {"x.parquet", "a Parquet file"},   {"X.PARQUET", "a Parquet file"},
      {"x.pq", "a Parquet file"},        {"x.arrow", "an Arrow file"},
      {"x.feather", "a Feather file"},   {"x.csv.parquet", "a Parquet file"},
      {"x.parquet.gz", "a Parquet file"}};
  for (const auto& [name, format] : rows) {
    const absl::Status status = CheckTableName(name);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    const std::string text(status.message());
    EXPECT_THAT(text, HasSubstr(name));
    EXPECT_THAT(text, HasSubstr(format));
    EXPECT_THAT(text, HasSubstr("examples/from_parquet.py"));
    EXPECT_THAT(text, HasSubstr("docs/parquet.md"));
  }
}

TEST(CheckTableNameTest, TakesOtherNames) {
  for (const char* name : {"x.csv", "parquet", "x.parquet.csv", "x.npz", ""}) {
    EXPECT_TRUE(CheckTableName(name).ok()) << name;
  }
}

TEST(CheckTableBytesTest, KnowsTheFirstBytesOfTheFormats) {
  const std::pair<std::string, const char*> rows[] = {
      {std::string("PAR1\x15\x04\x15\x00", 8), "a Parquet file"},
      {std::string("PARE\x10\x00\x00\x00", 8), "an encrypted Parquet file"},
      {std::string("ARROW1\0\0\xff\xff\xff\xff", 12),
       "an Arrow or Feather file"},
      {std::string("FEA1\0\0\0\0", 8), "a Feather file"}};
  for (const auto& [bytes, format] : rows) {
    const absl::Status status = CheckTableBytes("rows.csv", bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << format;
    EXPECT_THAT(std::string(status.message()), HasSubstr(format));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rows.csv"));
  }
}

TEST(CheckTableBytesTest, TakesTextThatBeginsWithTheSameLetters) {
  for (const char* text : {"PAR1,PAR2\r\n1,2\r\n", "ARROW1\tARROW2\n", "FEA1",
                           "PAR1", "1,2\n", ""}) {
    EXPECT_TRUE(CheckTableBytes("rows.csv", text).ok()) << text;
  }
}

}  // namespace
}  // namespace gpupool::server
