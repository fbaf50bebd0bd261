#include "client/files/csv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "tests/test_paths.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string WriteFile(const std::string& text) {
  const std::string path =
      ::testing::TempDir() + "/csv_rows_test_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream(path) << text;
  return path;
}

TEST(ReadCsvTest, TheLastColumnIsTheLabel) {
  const auto rows = ReadCsv(WriteFile("1,2,7\n3,4,8\n"), {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows, 2u);
  EXPECT_EQ(rows->width, 2u);
  EXPECT_THAT(rows->Row(1), ElementsAre(3, 4));
  EXPECT_THAT(rows->labels, ElementsAre(7, 8));
}

TEST(ReadCsvTest, ALabelMayStandAnywhereOrNowhere) {
  const std::string path = WriteFile("1,2,7\n");
  EXPECT_THAT(ReadCsv(path, {.label_column = 0})->labels, ElementsAre(1));
  EXPECT_THAT(ReadCsv(path, {.label_column = -2})->labels, ElementsAre(2));
  const auto all = ReadCsv(path, {.label_column = std::nullopt});
  EXPECT_EQ(all->width, 3u);
  EXPECT_TRUE(all->labels.empty());
}

TEST(ReadCsvTest, SkipsHeaderEmptyLinesAndCarriageReturns) {
  const auto rows =
      ReadCsv(WriteFile("a,b\r\n1,2\r\n\r\n3,4"), {.has_header = true});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows, 2u);
}

TEST(ReadCsvTest, SkipsAByteOrderMark) {
  const auto rows = ReadCsv(WriteFile("\xEF\xBB\xBF"
                                      "1,2\n3,4\n"),
                            {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows, 2u);
}

TEST(ReadCsvTest, NamesLineAndColumnOfABrokenField) {
  EXPECT_THAT(ReadCsv(WriteFile("1,2\n3,x\n"), {}).status().message(),
              HasSubstr(": line 2, column 2: 'x' is not a number"));
  EXPECT_THAT(ReadCsv(WriteFile("a,b\n3,4\n"), {}).status().message(),
              HasSubstr("--header"));
}

TEST(ReadCsvTest, SuggestsAHeaderOnlyWhereOneIsPossible) {
  const std::string path = WriteFile("height,color\n3,red\n");
  const absl::Status without = ReadCsv(path, {}).status();
  EXPECT_THAT(without.message(), HasSubstr("begin with names? --header"));
  EXPECT_THAT(without.message(), Not(HasSubstr("category")));
  const absl::Status with = ReadCsv(path, {.has_header = true}).status();
  EXPECT_EQ(with.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(with.message(),
              HasSubstr(": line 2, column 2: 'red' is not a number; a request "
                        "takes numbers only"));
  EXPECT_THAT(with.message(), Not(HasSubstr("--header")));
}

TEST(ReadCsvTest, NamesTheRowOfAnotherWidth) {
  EXPECT_THAT(ReadCsv(WriteFile("1,2\n3,4,5\n"), {}).status().message(),
              HasSubstr(": line 2 has 3 columns; the rows before it have 2"));
}

TEST(ReadCsvTest, RefusesALabelColumnThatIsNotThere) {
  EXPECT_THAT(
      ReadCsv(WriteFile("1,2\n"), {.label_column = 2}).status().message(),
      HasSubstr("label column 2 does not exist"));
}

TEST(ReadCsvTest, RefusesEmptyAndMissingFiles) {
  EXPECT_EQ(ReadCsv(WriteFile(""), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadCsv("/no/such.csv", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ReadCsvTest, ReadsTheGzipFileOfTheExamples) {
  const auto rows = ReadCsv(SourcePath("examples/data/digits.csv.gz"), {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows, 1797u);
  EXPECT_EQ(rows->width, 64u);
}

TEST(ReadCsvTest, RefusesACutGzipFile) {
  std::ifstream whole(SourcePath("examples/data/digits.csv.gz"),
                      std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(whole), {});
  const auto rows = ReadCsv(WriteFile(bytes.substr(0, bytes.size() / 2)), {});
  EXPECT_FALSE(rows.ok());
}

}  // namespace
}  // namespace gpupool::client
