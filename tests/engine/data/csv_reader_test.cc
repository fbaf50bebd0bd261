#include "engine/data/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"
#include "tests/engine/scratch_folder.h"
#include "tests/test_paths.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<Table> Read(const std::string& text, CsvOptions options = {},
                           ReadLimits limits = {}) {
  return ReadCsv(text, options, limits);
}

std::string ErrorOf(const std::string& text, CsvOptions options = {}) {
  auto table = Read(text, options);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(table.status().message());
}

TEST(CsvReaderTest, LastColumnIsTheLabelByDefault) {
  auto table = Read("1,2,0\n3,4.5,2\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->features().shape, ElementsAre(2));
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, 3, 4.5));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 2));
  EXPECT_EQ(table->labels().facts.class_count(), 3u);
}

TEST(CsvReaderTest, LabelColumnCountsFromEitherEnd) {
  auto first = Read("7,1,2\n", {.label_column = 0});
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(Floats(first->labels()), ElementsAre(7));
  EXPECT_THAT(Floats(first->features()), ElementsAre(1, 2));
  auto middle = Read("7,1,2\n", {.label_column = -2});
  ASSERT_TRUE(middle.ok());
  EXPECT_THAT(Floats(middle->labels()), ElementsAre(1));
  EXPECT_THAT(ErrorOf("7,1,2\n", {.label_column = 3}),
              HasSubstr("label_column 3 is outside -3 .. 2"));
  EXPECT_THAT(ErrorOf("7,1,2\n", {.label_column = -4}), HasSubstr("-4"));
}

TEST(CsvReaderTest, ToleratesWhatSpreadsheetsWrite) {
  auto table = Read("\xEF\xBB\xBF\"a\",\"b\"\r\n\r\n 1 ,\"2\"\r\n3,4",
                    {.has_header = true});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 3));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(2, 4));
}

TEST(CsvReaderTest, NamesLineColumnAndTextOfABadNumber) {
  EXPECT_THAT(ErrorOf("1,2,3\n\n4,abc,6\n"),
              StartsWith("line 3 column 2: \"abc\" is not a finite number"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n4,abc\n", {.has_header = true}),
              StartsWith("line 3 column 2 (\"y\"): \"abc\" is not a finite"));
  EXPECT_THAT(ErrorOf("1,2\n3,\n"),
              StartsWith("line 2 column 2: the cell is empty"));
  EXPECT_THAT(ErrorOf("1,2\n3,1e39\n"), HasSubstr("1e39"));
  EXPECT_THAT(ErrorOf("1,2\n3,inf\n"), HasSubstr("\"inf\" is not a finite"));
  EXPECT_THAT(ErrorOf("1,2\n3,nan\n"), HasSubstr("nan"));
  EXPECT_THAT(ErrorOf("1,2\n3,\x01" + std::string(100, 'z') + "\n"),
              HasSubstr("\\x01zzz"));
}

TEST(CsvReaderTest, SuggestsHasHeaderWhenTheFirstLineIsWords) {
  EXPECT_THAT(ErrorOf("a,b\n1,2\n"), HasSubstr("set has_header"));
}

TEST(CsvReaderTest, EveryLineHasTheWidthOfTheFirst) {
  EXPECT_EQ(ErrorOf("1,2,3\n4,5\n"),
            "line 2 has 2 columns where the lines before have 3");
  EXPECT_EQ(ErrorOf("1,2\n4,5,6\n"),
            "line 2 has 3 columns where the lines before have 2");
  EXPECT_THAT(ErrorOf("1\n2\n"), HasSubstr("one column"));
}

TEST(CsvReaderTest, NoRowsIsAnError) {
  EXPECT_EQ(ErrorOf(""), "holds no row");
  EXPECT_EQ(ErrorOf("a,b\n", {.has_header = true}), "holds no row");
}

TEST(CsvReaderTest, LabelsThatAreNotWholeAreNoClasses) {
  auto table = Read("1,0.5\n1,1\n");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->labels().facts.class_count(), 0u);
  auto negative = Read("1,-1\n");
  ASSERT_TRUE(negative.ok());
  EXPECT_EQ(negative->labels().facts.class_count(), 0u);
}

TEST(CsvReaderTest, StopsAtTheByteLimit) {
  auto table = Read("1,2\n3,4\n", {}, {.max_table_bytes = 12});
  EXPECT_EQ(table.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Read("1,2\n", {}, {.max_table_bytes = 12}).ok());
}

TEST(CsvReaderTest, ALargeTableGoesToTheDisk) {
  const ScratchFolder folder;
  std::string text;
  for (int row = 0; row < 1000; ++row) {
    text += std::to_string(row) + ",0.5," + std::to_string(row % 10) + "\n";
  }
  // 1000 rows of 3 numbers need 12000 bytes.
  ReadLimits limits{.memory_bytes = 11999, .unpack_dir = folder.path()};
  auto on_disk = Read(text, {}, limits);
  ASSERT_TRUE(on_disk.ok()) << on_disk.status();
  EXPECT_EQ(on_disk->host_bytes(), 0u);
  limits.memory_bytes = 12000;
  auto held = Read(text, {}, limits);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->host_bytes(), 12000u);
  EXPECT_EQ(Floats(on_disk->features()), Floats(held->features()));
  EXPECT_EQ(Floats(on_disk->labels()), Floats(held->labels()));
  EXPECT_EQ(on_disk->labels().facts.class_count(), 10u);
}

TEST(CsvReaderTest, LinesMaySpanReadsOfTheStream) {
  std::string text;
  for (int row = 0; row < 50000; ++row) {
    text += std::to_string(row) + "," + std::to_string(row % 7) + ".25,3\n";
  }
  auto table = Read(text);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->rows, 50000u);
  const std::vector<float> features = Floats(table->features());
  for (uint64_t row = 0; row < table->rows; ++row) {
    ASSERT_EQ(features[row * 2], row);
    ASSERT_EQ(features[row * 2 + 1], row % 7 + 0.25);
  }
}

TEST(CsvReaderTest, ReadsTheDigits) {
  const std::string bytes =
      files::ReadFile(SourcePath("examples/data/digits.csv.gz"));
  auto table = ReadCsv(bytes, {}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 1797u);
  EXPECT_EQ(table->features().width, 64u);
  EXPECT_EQ(table->labels().facts.class_count(), 10u);
}

TEST(CsvReaderTest, SeveralColumnsAreALabelInTheirOrder) {
  auto table = Read("1,2,3,4\n5,6,7,8\n", {.label_columns = {-1, 0}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features().shape, ElementsAre(2));
  EXPECT_THAT(Floats(table->features()), ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(table->labels().width, 2u);
  EXPECT_THAT(Floats(table->labels()), ElementsAre(4, 1, 8, 5));
  EXPECT_THAT(table->labels().facts.shape, ElementsAre(2));
}

TEST(CsvReaderTest, NamesOfTheHeaderChooseColumns) {
  auto table = Read("a, \"b\" ,c\n1,2,3\n",
                    {.label_names = {"c", "b"}, .has_header = true});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->labels()), ElementsAre(3, 2));
  EXPECT_THAT(
      ErrorOf("a,b,c\n1,2,3\n", {.label_names = {"d"}, .has_header = true}),
      HasSubstr("has no column \"d\" for label_names; its header has: "
                "\"a\", \"b\", \"c\""));
  EXPECT_THAT(
      ErrorOf("a,b,c\n1,2\n", {.label_names = {"c"}, .has_header = true}),
      HasSubstr("has no column \"c\""))
      << "a header that is wider than its rows";
}

TEST(CsvReaderTest, LabelColumnsMustBeThereOnceAndLeaveAFeature) {
  EXPECT_THAT(ErrorOf("1,2,3\n", {.label_columns = {0, 3}}),
              HasSubstr("column 3 of label_columns is outside -3 .. 2"));
  EXPECT_THAT(ErrorOf("1,2,3\n", {.label_columns = {2, -1}}),
              HasSubstr("column 2 twice"));
  EXPECT_THAT(ErrorOf("1,2\n", {.label_columns = {0, 1}}),
              HasSubstr("one feature and 2 label columns"));
}

TEST(CsvReaderTest, LabelsOfManyColumnsCountForTheLimit) {
  const CsvOptions options = {.label_columns = {0, 1, 2}};
  EXPECT_TRUE(Read("1,2,3,4\n", options, {.max_table_bytes = 16}).ok());
  EXPECT_EQ(Read("1,2,3,4\n", options, {.max_table_bytes = 15}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// A table as people have it: text, a missing number, quotes.
constexpr const char* kPets =
    "name,size,color,kind\n"
    "Rex,4,\"red, dark\",dog\n"
    "Tom,,blue,cat\n"
    "Kit,1,,cat\n"
    "Bo,3,blue,dog\n";

CsvOptions Pets(MissingRule missing, TextRule text = TextRule::kIndex) {
  return {.has_header = true,
          .missing = missing,
          .text = text,
          .skipped_columns = {"name"}};
}

TEST(CsvReaderTest, TextBecomesTheIndexOfItsCategory) {
  auto table = Read(
      "size,color,kind\r\n1,red,\"d\"\"og\"\r\n2,blue,cat\r\n"
      "3,red,cat",
      {.has_header = true});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 0, 2, 1, 3, 0));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1, 1));
  EXPECT_EQ(table->labels().facts.class_count(), 2u);
  ASSERT_EQ(table->csv_columns.size(), 3u);
  EXPECT_FALSE(table->csv_columns[0].text);
  EXPECT_THAT(table->csv_columns[1].categories, ElementsAre("red", "blue"));
  EXPECT_THAT(table->csv_columns[2].categories, ElementsAre("d\"og", "cat"));
  EXPECT_THAT(table->csv_columns[2].category_rows, ElementsAre(1, 2));
  EXPECT_TRUE(table->csv_columns[2].label);
}

TEST(CsvReaderTest, ALabelOfTextNeedsNoHeader) {
  auto table = Read("5.1,3.5,setosa\n7,3.2,versicolor\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1));
  EXPECT_EQ(table->csv_columns[2].name, "2");
}

TEST(CsvReaderTest, MissingCellsAreRefusedFilledOrDroppedWithTheirRow) {
  EXPECT_THAT(ErrorOf(kPets, Pets(MissingRule::kRefuse)),
              StartsWith("line 3 column 2 (\"size\"): the cell is empty"));
  auto mean = Read(kPets, Pets(MissingRule::kMean));
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_THAT(Floats(mean->features()),
              ElementsAre(4, 0, Floats(mean->features())[2], 1, 1, 2, 3, 1));
  EXPECT_FLOAT_EQ(Floats(mean->features())[2], 8.0f / 3);
  EXPECT_THAT(mean->csv_columns[1].categories,
              ElementsAre("red, dark", "blue", ""));
  auto zero = Read(kPets, Pets(MissingRule::kZero));
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_THAT(Floats(zero->features()), ElementsAre(4, 0, 0, 1, 1, 2, 3, 1));
  EXPECT_EQ(zero->csv_columns[0].missing, 1u);
  EXPECT_EQ(zero->csv_columns[0].minimum, 1) << "what is filled in is no fact";
  auto dropped = Read(kPets, Pets(MissingRule::kDropRow));
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(dropped->rows, 2u);
  EXPECT_EQ(dropped->dropped_rows, 2u);
  EXPECT_THAT(Floats(dropped->features()), ElementsAre(4, 0, 3, 1));
  EXPECT_THAT(dropped->csv_columns[2].categories, ElementsAre("dog"))
      << "rows that are left out give no category";
}

TEST(CsvReaderTest, AllRowsMayBeLeftOut) {
  EXPECT_EQ(ErrorOf("1,\n,2\n", {.missing = MissingRule::kDropRow}),
            "holds no row; 2 rows with missing cells were left out");
  EXPECT_THAT(ErrorOf("1,,2\n", {.missing = MissingRule::kMean}),
              StartsWith("column 2: no row has a value; leave the column out"));
}

TEST(CsvReaderTest, OneHotGivesEachCategoryANumber) {
  auto table = Read(kPets, Pets(MissingRule::kZero, TextRule::kOneHot));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features().shape, ElementsAre(4));
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(4, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 3, 0, 1, 0));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(table->csv_columns[0].first_number, 0u);
  EXPECT_EQ(table->csv_columns[1].first_number, 1u);
  EXPECT_EQ(table->csv_columns[1].missing, 1u) << "counted once";
}

TEST(CsvReaderTest, OneHotCountsForTheLimitOfBytes) {
  const CsvOptions options = {.has_header = true, .text = TextRule::kOneHot};
  const std::string text = "c,y\na,1\nb,2\n";
  // Two rows of two features and a label.
  EXPECT_TRUE(Read(text, options, {.max_table_bytes = 24}).ok());
  EXPECT_EQ(Read(text, options, {.max_table_bytes = 23}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CsvReaderTest, OneHotRowsAreCheckedBeforeTheFirstIsStored) {
  const auto large = Read("c,y\na,1\nb,2\na,1\n",
                          {.has_header = true, .text = TextRule::kOneHot},
                          {.max_table_bytes = 11});
  EXPECT_THAT(std::string(large.status().message()),
              HasSubstr("3 rows of 12 bytes exceed"));
  // 8,000 categories in each of 33 columns. No name is a missing cell.
  std::string text;
  const std::string letters = "bcdefghijklmnopqrstu";
  for (char a : letters) {
    for (char b : letters) {
      for (char c : letters) {
        for (int i = 0; i < 33; ++i) text.append({a, b, c, ','});
        text += "1\n";
      }
    }
  }
  EXPECT_THAT(ErrorOf(text, {.text = TextRule::kOneHot}),
              HasSubstr("would have 264000 numbers, the limit is 262144; set "
                        "text to INDEX (gpupool: --text index)"));
}

TEST(CsvReaderTest, TextMayBecomeItsBytes) {
  const CsvOptions options = {
      .has_header = true, .text = TextRule::kBytes, .text_length = 3};
  auto table =
      Read("n,t,kind\n7,ab,good\n8,ca\xC3\xA9,bad\n9,defg,good\n", options);
  ASSERT_TRUE(table.ok()) << table.status();
  // A character of two bytes is not cut in the middle.
  EXPECT_THAT(table->features().shape, ElementsAre(4));
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(7, 'a', 'b', 0, 8, 'c', 'a', 0, 9, 'd', 'e', 'f'));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1, 0));
  EXPECT_THAT(table->csv_columns[2].categories, ElementsAre("good", "bad"));
  EXPECT_TRUE(table->csv_columns[1].categories.empty());
  EXPECT_EQ(ErrorOf("t,y\na,1\n\xFF,1\n", options),
            "line 3 column 1 (\"t\"): \"\\xff\" is not UTF-8; save the file as "
            "UTF-8");
  EXPECT_THAT(ErrorOf(std::string("t,y\na\0,1\n", 9), options),
              HasSubstr("has a byte of zero"));
}

TEST(CsvReaderTest, MissingTextIsEmpty) {
  const CsvOptions options = {.has_header = true,
                              .missing = MissingRule::kMean,
                              .text = TextRule::kBytes,
                              .text_length = 2};
  auto table = Read("t,n,y\n,1,0\nab,,1\n,3,0\n", options);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(0, 0, 1, 'a', 'b', 2, 0, 0, 3));
  EXPECT_THAT(
      ErrorOf("t,y\n,0\n",
              {.has_header = true, .text = TextRule::kBytes, .text_length = 2}),
      HasSubstr("line 2 column 1 (\"t\"): the cell is empty"));
}

TEST(CsvReaderTest, BytesOfARowAreBounded) {
  const CsvOptions options = {.text = TextRule::kBytes, .text_length = 65536};
  EXPECT_TRUE(Read("a,b,c,d,1\n", options).ok());
  EXPECT_EQ(ErrorOf("a,b,c,d,e,1\n", options),
            "line 1 with the bytes of each text a row would have 327680 "
            "numbers, the limit is 262144; set a smaller text_length (gpupool: "
            "--text-length), or leave columns out by skipped_columns (gpupool: "
            "--skip-columns)");
}

TEST(CsvReaderTest, ColumnsOfTextAreBounded) {
  std::string line;
  for (int i = 0; i < 10'000; ++i) line += "a,";
  EXPECT_TRUE(Read(line + "1\n").ok());
  EXPECT_THAT(
      ErrorOf("a," + line + "1\n"),
      StartsWith("line 1 has 10001 columns of text, the limit is 10000; "
                 "leave some out by skipped_columns"));
  EXPECT_TRUE(Read("a," + line + "1\n", {.skipped_columns = {"0"}}).ok());
}

TEST(CsvReaderTest, GivenCategoriesKeepTheirIndexes) {
  auto table = Read(
      "size,kind\n1,cat\n",
      {.has_header = true, .categories = {{"kind", {"dog", "cat", "owl"}}}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1));
  EXPECT_THAT(table->csv_columns[1].categories,
              ElementsAre("dog", "cat", "owl"));
  EXPECT_THAT(
      ErrorOf("size,kind\n1,cat\n2,emu\n",
              {.has_header = true, .categories = {{"kind", {"dog", "cat"}}}}),
      StartsWith("line 3 column 2 (\"kind\"): \"emu\" is not among"));
}

TEST(CsvReaderTest, CellsWithLineEndsKeepTheLineNumbersRight) {
  EXPECT_THAT(ErrorOf("\"a\nb\",1\n\"c\nd\",2\n\"e\",x\n"),
              StartsWith("line 5 column 2: \"x\" is not a finite"));
  EXPECT_THAT(ErrorOf("1,2\n3,\"4\n"),
              StartsWith("line 2 begins a cell in quotes that never ends"));
}

TEST(CsvReaderTest, CategoriesOfAColumnAreBounded) {
  std::string text;
  for (int i = 0; i < 10'001; ++i) text += "c" + std::to_string(i) + ",1\n";
  EXPECT_THAT(ErrorOf(text),
              StartsWith("line 10001 column 1: \"c10000\" would be category "
                         "10001 of the column, the limit is 10000"));
  text.resize(text.rfind("c10000"));
  EXPECT_TRUE(Read(text).ok());
}

TEST(CsvReaderTest, AFileIsReadTwiceAlsoIfItIsPacked) {
  const std::string packed = files::Gzip(kPets);
  auto table = ReadCsv(packed, Pets(MissingRule::kMean), {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 4u);
}

}  // namespace
}  // namespace gpupool::engine
