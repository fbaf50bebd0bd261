#include "engine/data/json_lines_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/data/csv_reader.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

absl::StatusOr<Table> ReadLines(const std::string& text,
                                const CsvOptions& options = {},
                                const ReadLimits& limits = {}) {
  return ReadJsonLines(text, options, limits);
}

std::string Refusal(const std::string& text, const CsvOptions& options = {}) {
  const auto table = ReadLines(text, options);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(table.status().message());
}

TEST(JsonLinesReaderTest, KeysAreColumnsAndTheLastIsTheLabel) {
  const auto table = ReadLines(
      "{\"x\": 1, \"ok\": false, \"y\": 0}\n"
      "{\"y\": 2, \"x\": 2.5e1, \"ok\": true}\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->features().shape, ElementsAre(2));
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 0, 25, 1));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 2));
  EXPECT_EQ(table->labels().facts.class_count(), 3u);
  ASSERT_EQ(table->csv_columns.size(), 3u);
  EXPECT_EQ(table->csv_columns[1].name, "ok");
  EXPECT_THAT(table->csv_columns[1].first_values, ElementsAre("false", "true"));
}

TEST(JsonLinesReaderTest, ArraysAreColumnsOfFeaturesOrLabels) {
  const auto table = ReadLines(
      "{\"a\": 9, \"p\": [1, 2.5], \"t\": [3, 4]}\n"
      "{\"a\": 8, \"p\": [5, true], \"t\": [7, 8]}\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features().shape, ElementsAre(3));
  EXPECT_THAT(Floats(table->features()), ElementsAre(9, 1, 2.5, 8, 5, 1));
  EXPECT_THAT(table->labels().shape, ElementsAre(2));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(3, 4, 7, 8));
  ASSERT_EQ(table->csv_columns.size(), 5u);
  EXPECT_EQ(table->csv_columns[2].name, "p[1]");
  EXPECT_EQ(table->csv_columns[2].first_number, 2u);
  EXPECT_THAT(table->csv_columns[2].first_values, ElementsAre("2.5", "1"));
  EXPECT_TRUE(table->csv_columns[4].label);
  EXPECT_EQ(table->csv_columns[4].first_number, 1u);
}

TEST(JsonLinesReaderTest, StringsAreCategoriesAsInCsvFiles) {
  const std::string text =
      "{\"tag\": \"a1\", \"size\": 2.5, \"color\": \"green\", \"kind\": "
      "\"oak\"}\n"
      "{\"tag\": \"a2\", \"size\": null, \"color\": \"light, green\", "
      "\"kind\": \"elm\"}\n"
      "{\"tag\": \"a3\", \"color\": \"green\", \"kind\": \"oak\"}\n";
  const CsvOptions options = {.has_header = true,
                              .missing = MissingRule::kMean,
                              .text = TextRule::kOneHot,
                              .skipped_columns = {"tag"}};
  const auto table = ReadLines(text, options);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(2.5, 1, 0, 2.5, 0, 1, 2.5, 1, 0));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1, 0));
  const auto csv = ReadCsv(
      "tag,size,color,kind\na1,2.5,green,oak\na2,,\"light, green\",elm\n"
      "a3,,green,oak\n",
      options, {});
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_EQ(Floats(table->features()), Floats(csv->features()));
  EXPECT_EQ(Floats(table->labels()), Floats(csv->labels()));
  ASSERT_EQ(table->csv_columns.size(), csv->csv_columns.size());
  for (size_t i = 0; i < csv->csv_columns.size(); ++i) {
    EXPECT_EQ(table->csv_columns[i].name, csv->csv_columns[i].name);
    EXPECT_EQ(table->csv_columns[i].categories, csv->csv_columns[i].categories);
    EXPECT_EQ(table->csv_columns[i].missing, csv->csv_columns[i].missing);
  }
}

TEST(JsonLinesReaderTest, StringsOfDigitsAreText) {
  const auto table = ReadLines(
      "{\"zip\": \"10115\", \"y\": 0}\n{\"zip\": \"0,5\", \"y\": 1}\n"
      "{\"zip\": \"NaN\", \"y\": 1}\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->csv_columns[0].categories,
              ElementsAre("10115", "0,5", "NaN"));
}

TEST(JsonLinesReaderTest, TextColumnsTakeNumbersAsCategories) {
  const auto table = ReadLines(
      "{\"c\": 7, \"y\": 0}\n{\"c\": \"7\", \"y\": 0}\n{\"c\": true, \"y\": "
      "0}\n"
      "{\"c\": 9007199254740993, \"y\": 0}\n{\"c\": 1.50, \"y\": 0}\n",
      {.text_columns = {"c"}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->csv_columns[0].categories,
              ElementsAre("7", "true", "9007199254740993", "1.50"));
  EXPECT_THAT(Floats(table->features()), ElementsAre(0, 0, 1, 2, 3));
  const CsvOptions given = {.categories = {{"c", {"b", "a"}}}};
  const auto like = ReadLines("{\"c\": \"a\", \"y\": 0}\n", given);
  ASSERT_TRUE(like.ok()) << like.status();
  EXPECT_THAT(Floats(like->features()), ElementsAre(1));
  EXPECT_THAT(Refusal("{\"c\": \"z\", \"y\": 0}\n", given),
              StartsWith("line 1 key \"c\": \"z\" is not among the 2"));
}

TEST(JsonLinesReaderTest, NumbersAndStringsDoNotMix) {
  EXPECT_THAT(
      Refusal("{\"x\": 1, \"y\": 0}\n{\"x\": \"abc\", \"y\": 0}\n"),
      StartsWith("line 2 key \"x\": \"abc\" is a string, but the values before "
                 "it are numbers; write a number, without quotes, or name the "
                 "column in text_columns (gpupool: --text-columns)"));
  EXPECT_THAT(
      Refusal("{\"x\": \"abc\", \"y\": 0}\n\n{\"x\": 5, \"y\": 0}\n"),
      StartsWith("line 3 key \"x\": 5 is a number, but the values before it "
                 "are strings; write it in quotes, or name the column"));
}

TEST(JsonLinesReaderTest, MissingValuesAreRefusedByDefault) {
  const std::string first = "{\"x\": 1, \"c\": \"red\", \"y\": 0}\n";
  EXPECT_EQ(
      Refusal(first + "{\"x\": null, \"c\": \"red\", \"y\": 0}\n"),
      "line 2 key \"x\": the value is null; correct it, or set missing to "
      "MEAN, ZERO or DROP_ROW (gpupool: --missing mean|zero|drop-row)");
  EXPECT_THAT(
      Refusal(first + "{\"c\": \"red\", \"y\": 0}\n"),
      StartsWith("line 2 key \"x\": the object does not have the key; "));
  EXPECT_THAT(Refusal(first + "{\"x\": 1, \"c\": \"\", \"y\": 0}\n"),
              StartsWith("line 2 key \"c\": the string is empty; "));
  EXPECT_THAT(Refusal("{\"p\": [1, null], \"y\": 0}\n"),
              StartsWith("line 1 key \"p\"[1]: the number is null; "));
  EXPECT_THAT(Refusal(first + "{\"x\": 1, \"c\": \"red\", \"y\": null}\n",
                      {.missing = MissingRule::kMean}),
              StartsWith("line 2 key \"y\": the value is null, and labels are "
                         "not filled in"));
  EXPECT_THAT(
      Refusal("{\"x\": 1, \"z\": null, \"y\": 0}\n",
              {.missing = MissingRule::kZero}),
      StartsWith("key \"z\": no row has a value; leave the column out"));
}

TEST(JsonLinesReaderTest, MissingNumbersOfArraysAreFilledInOneByOne) {
  const std::string text =
      "{\"p\": [1, 10], \"y\": 0}\n{\"p\": [3, null], \"y\": 0}\n"
      "{\"p\": null, \"y\": 0}\n{\"y\": 1, \"p\": [null, 20]}\n";
  const auto mean = ReadLines(text, {.missing = MissingRule::kMean});
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_THAT(Floats(mean->features()),
              ElementsAre(1, 10, 3, 15, 2, 15, 2, 20));
  EXPECT_EQ(mean->csv_columns[0].missing, 2u);
  EXPECT_THAT(mean->csv_columns[1].first_values,
              ElementsAre("10", "null", "null"));
  const auto dropped = ReadLines(text, {.missing = MissingRule::kDropRow});
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_THAT(Floats(dropped->features()), ElementsAre(1, 10));
  EXPECT_EQ(dropped->dropped_rows, 3u);
}

TEST(JsonLinesReaderTest, RowsWithMissingTextAreLeftOut) {
  const auto table = ReadLines(
      "{\"c\": \"\", \"y\": 0}\n{\"c\": \"red\", \"y\": 1}\n{\"y\": 2}\n",
      {.missing = MissingRule::kDropRow});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1));
  EXPECT_EQ(table->dropped_rows, 2u);
}

TEST(JsonLinesReaderTest, ArraysHaveTheLengthOfTheFirst) {
  const std::string first = "{\"p\": [1, 2], \"x\": 1, \"y\": 0}\n";
  EXPECT_EQ(Refusal(first + "{\"p\": [1], \"x\": 1, \"y\": 0}\n"),
            "line 2 key \"p\": the array has 1 number where that of the first "
            "object has 2; all arrays of a key have one length");
  EXPECT_THAT(Refusal(first + "{\"p\": 4, \"x\": 1, \"y\": 0}\n"),
              StartsWith("line 2 key \"p\": the value is 4, where the first "
                         "object has an array; write an array of 2 numbers"));
  EXPECT_THAT(Refusal(first + "{\"p\": \"a\", \"x\": 1, \"y\": 0}\n"),
              StartsWith("line 2 key \"p\": the value is \"a\", where"));
  EXPECT_THAT(Refusal(first + "{\"p\": [1, 2], \"x\": [1], \"y\": 0}\n"),
              StartsWith("line 2 key \"x\": the value is an array of 1 number, "
                         "where the first object has none"));
  EXPECT_THAT(Refusal("{\"p\": [], \"y\": 0}\n"),
              StartsWith("line 1 key \"p\": the array is empty"));
}

TEST(JsonLinesReaderTest, NestedValuesAreRefusedUnlessTheyAreSkipped) {
  const std::string text =
      "{\"x\": 1, \"meta\": 2, \"y\": 0}\n"
      "{\"x\": 1, \"meta\": {\"a\": [1]}, \"y\": 1}\n";
  EXPECT_EQ(Refusal(text),
            "line 2 key \"meta\": the value is an object; write its values as "
            "keys of their own, an array of numbers as one array, or leave the "
            "key out by skipped_columns (gpupool: --skip-columns)");
  EXPECT_THAT(
      Refusal("{\"tags\": [\"a\"], \"y\": 0}\n"),
      StartsWith("line 1 key \"tags\": the value is an array that holds "
                 "a string, \"a\"; write"));
  EXPECT_THAT(
      Refusal("{\"m\": [[1, 2], [3, 4]], \"y\": 0}\n"),
      StartsWith("line 1 key \"m\": the value is an array that holds an "
                 "array; write"));
  const auto table = ReadLines(text, {.skipped_columns = {"meta"}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 1));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1));
}

TEST(JsonLinesReaderTest, NumbersFitAFloat) {
  EXPECT_THAT(Refusal("{\"x\": 1e39, \"y\": 0}\n"),
              StartsWith("line 1 key \"x\": 1e39 is outside the range of a "
                         "32-bit float, -3.4e38 to 3.4e38; scale the numbers"));
  EXPECT_THAT(Refusal("{\"x\": [0, -1e39], \"y\": 0}\n"),
              StartsWith("line 1 key \"x\"[1]: -1e+39 is outside the range"));
}

TEST(JsonLinesReaderTest, LabelsGoByTheNamesOfKeys) {
  const auto table = ReadLines("{\"y\": 1, \"x\": 2, \"t\": [3, 4]}\n",
                               {.label_names = {"t", "y"}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()), ElementsAre(2));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(3, 4, 1));
  EXPECT_THAT(Refusal("{\"y\": 1, \"x\": 2}\n", {.label_names = {"z"}}),
              StartsWith("line 1 has no column \"z\" for label_names; the keys "
                         "of the first object are: \"y\", \"x\""));
}

TEST(JsonLinesReaderTest, LinesEndAsTheyDoInCsvFiles) {
  const std::string text =
      "\xEF\xBB\xBF\r\n{\"x\": 1, \"y\": 2}\r\n  \n\t{\"x\": 3, \"y\": 4} ";
  for (const std::string& bytes : {text, files::Gzip(text)}) {
    const auto table = ReadLines(bytes);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(Floats(table->features()), ElementsAre(1, 3));
  }
  EXPECT_THAT(Refusal("\n{\"x\": 1, \"y\": 2}\n\n{\"x\": 1, \"y\": }\n"),
              StartsWith("line 4 is not JSON at byte 15, after key \"y\""));
  EXPECT_THAT(Refusal("{\n  \"x\": 1,\n  \"y\": 2\n}\n"),
              StartsWith("line 1 ends within its object; write each row"));
  EXPECT_EQ(Refusal(""), "holds no row");
  EXPECT_EQ(Refusal(" \n\n"), "holds no row");
}

TEST(JsonLinesReaderTest, QuotesDoNotJoinLines) {
  EXPECT_THAT(Refusal("{\"x\": \"a\n b\", \"y\": 2}\n"),
              StartsWith("line 1 ends within its object, after key \"x\""));
}

TEST(JsonLinesReaderTest, StopsAtTheByteLimit) {
  const std::string row = "{\"x\": [1, 2], \"y\": 0}\n";
  EXPECT_TRUE(ReadLines(row, {}, {.max_table_bytes = 12}).ok());
  EXPECT_EQ(ReadLines(row + row, {}, {.max_table_bytes = 12}).status().code(),
            absl::StatusCode::kResourceExhausted);
  const ScratchFolder folder;
  const auto mapped = ReadLines(
      row + row, {}, {.memory_bytes = 12, .unpack_dir = folder.path()});
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->host_bytes(), 0u);
  EXPECT_THAT(Floats(mapped->features()), ElementsAre(1, 2, 1, 2));
}

TEST(JsonLinesReaderTest, ALineIsBounded) {
  const std::string blanks(size_t{65} << 20, ' ');
  EXPECT_THAT(Refusal("{\"x\":" + blanks + "1, \"y\": 0}\n"),
              HasSubstr("is longer than 67108864 bytes; write each object on a "
                        "line of its own"));
}

TEST(BeginsWithObjectTest, LooksBehindBlanksAndMarks) {
  for (const char* text : {"{\"x\": 1}", " \r\n\n\t{ \"x\"", "{}",
                           "\xEF\xBB\xBF{\"x\"", "{\n  \"x\": 1"}) {
    EXPECT_TRUE(BeginsWithObject(text)) << text;
    EXPECT_TRUE(BeginsWithObject(files::Gzip(text))) << text;
  }
  for (const char* text : {"", "{", "1,2", "[{\"x\": 1}]", "{x: 1}", "{1,2}",
                           "\"{\"\"a\"\"}\",1", "x,y\n{\"x\": 1}"}) {
    EXPECT_FALSE(BeginsWithObject(text)) << text;
  }
  EXPECT_FALSE(BeginsWithObject(std::string(9000, '\n') + "1,2\n"));
  EXPECT_FALSE(BeginsWithObject("{\xEF\xBB\xBF\"x\": 1}"));
  EXPECT_FALSE(BeginsWithObject("\x1F\x8B broken"));
}

// A stored file has no name that says what it is.
TEST(BeginsWithObjectTest, IsTrueForAllThatIsTaken) {
  const std::string row = "{\"x\": 1, \"y\": 0}\n";
  const std::string mark = "\xEF\xBB\xBF";
  for (const std::string& text :
       {std::string(9000, '\n') + row, std::string(9000, ' ') + row,
        "{" + std::string(9000, ' ') + row.substr(1), mark + mark + row,
        "\n" + mark + row}) {
    EXPECT_TRUE(ReadLines(text).ok()) << ReadLines(text).status();
    EXPECT_TRUE(BeginsWithObject(text));
    EXPECT_TRUE(BeginsWithObject(files::Gzip(text)));
  }
}

}  // namespace
}  // namespace gpupool::engine
