#include "engine/data/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/data/audio_reader.h"
#include "engine/data/csv_reader.h"
#include "engine/data/image_reader.h"
#include "engine/data/text_reader.h"
#include "gpupool/v1/dataset.pb.h"
#include "tests/engine/data/audio_files.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/image_files.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::DatasetDescription DescribeCsvText(const std::string& text,
                                       const CsvOptions& options = {}) {
  const auto table = ReadCsv(text, options, {});
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? DescribeTable(*table) : v1::DatasetDescription();
}

TEST(DescribeTableTest, ColumnsOfACsvFileInTheOrderOfTheFile) {
  const v1::DatasetDescription description = DescribeCsvText(
      "kind,size,color\ncat,1,red\ndog,,\ncat,4,red\n",
      {.label_column = 0, .has_header = true, .missing = MissingRule::kZero});
  ASSERT_EQ(description.columns_size(), 3);
  const v1::DatasetColumn& kind = description.columns(0);
  EXPECT_EQ(kind.name(), "kind");
  EXPECT_EQ(kind.role(), v1::DatasetColumn::LABEL);
  EXPECT_TRUE(kind.is_text());
  EXPECT_THAT(kind.categories(), ElementsAre("cat", "dog"));
  EXPECT_THAT(kind.category_rows(), ElementsAre(2, 1));
  EXPECT_THAT(kind.first_values(), ElementsAre("cat", "dog", "cat"));
  const v1::DatasetColumn& size = description.columns(1);
  EXPECT_EQ(size.role(), v1::DatasetColumn::FEATURE);
  EXPECT_EQ(size.data_type(), v1::FLOAT32);
  EXPECT_FALSE(size.is_text());
  EXPECT_EQ(size.minimum(), 1);
  EXPECT_EQ(size.mean(), 2.5);
  EXPECT_EQ(size.maximum(), 4);
  EXPECT_EQ(size.missing(), 1u);
  EXPECT_EQ(size.counted_rows(), 3u);
  EXPECT_THAT(size.category_rows(), IsEmpty());
  const v1::DatasetColumn& color = description.columns(2);
  EXPECT_EQ(color.first_number(), 1u);
  EXPECT_THAT(color.categories(), ElementsAre("red", ""));
}

TEST(DescribeTableTest, ClassesOfNumbersAreCounted) {
  const v1::DatasetDescription classes =
      DescribeCsvText("1,0\n2,2\n3,2\n4,0\n5,2\n");
  EXPECT_THAT(classes.columns(1).category_rows(), ElementsAre(2, 0, 3));
  EXPECT_THAT(classes.columns(1).categories(), IsEmpty());
  EXPECT_THAT(DescribeCsvText("1,0.5\n").columns(1).category_rows(), IsEmpty());
  EXPECT_THAT(DescribeCsvText("1,10000\n").columns(1).category_rows(),
              IsEmpty())
      << "too many classes to be counted";
  EXPECT_THAT(DescribeCsvText("1,2,3\n", {.label_columns = {1, 2}})
                  .columns(1)
                  .category_rows(),
              IsEmpty())
      << "a label of several numbers is no class";
}

TEST(DescribeTableTest, OfVeryManyNumbersTheFirstColumnsAndTheLabelAreKept) {
  std::string line;
  for (int i = 0; i < 1002; ++i) absl::StrAppend(&line, i, ",");
  const v1::DatasetDescription description = DescribeCsvText(line + "1\n");
  EXPECT_EQ(description.columns_size(), 1001);
  EXPECT_EQ(description.columns_left_out(), 2u);
  EXPECT_EQ(description.columns(1000).role(), v1::DatasetColumn::LABEL);
}

TEST(DescribeTableTest, DroppedRowsAreTold) {
  EXPECT_EQ(DescribeCsvText("1,2\n,3\n", {.missing = MissingRule::kDropRow})
                .dropped_rows(),
            1u);
}

TEST(DescribeTableTest, ArraysHaveTheirShapeTypeAndRange) {
  Table table{.rows = 4};
  table.inputs.push_back(
      ColumnOfBytes(ElementType::kUint8, {2, 4}, std::string(31, '\2') + '\7'));
  table.inputs[0].stored = ElementType::kUint8;
  table.targets.push_back(ColumnOf({}, {1, 0, 1, 1}));
  table.targets[0].facts = SummarizeLabels(table.targets[0]);
  const v1::DatasetDescription description = DescribeTable(table);
  ASSERT_EQ(description.columns_size(), 2);
  const v1::DatasetColumn& features = description.columns(0);
  EXPECT_EQ(features.name(), "features");
  EXPECT_EQ(features.data_type(), v1::UINT8);
  EXPECT_THAT(features.shape(), ElementsAre(2, 4));
  EXPECT_EQ(features.minimum(), 2);
  EXPECT_EQ(features.maximum(), 7);
  EXPECT_EQ(features.mean(), 69.0 / 32);
  EXPECT_EQ(features.counted_rows(), 4u);
  EXPECT_THAT(
      features.first_values(),
      ElementsAre("2 2 2 2 2 2 ...", "2 2 2 2 2 2 ...", "2 2 2 2 2 2 ..."));
  const v1::DatasetColumn& labels = description.columns(1);
  EXPECT_EQ(labels.name(), "labels");
  EXPECT_EQ(labels.role(), v1::DatasetColumn::LABEL);
  EXPECT_THAT(labels.category_rows(), ElementsAre(1, 3));
  EXPECT_THAT(labels.first_values(), ElementsAre("1", "0", "1"));
  table.inputs[0].name = "ids";
  EXPECT_EQ(DescribeTable(table).columns(0).name(), "ids");
}

TEST(DescribeTableTest, ClassesOfImagesHaveNames) {
  const std::string archive =
      files::Tar({{"dog/1.png", files::Png(files::Plain(1, 1, "\1\2\3"))},
                  {"cat/1.png", files::Png(files::Plain(1, 1, "\4\5\6"))},
                  {"dog/2.png", files::Png(files::Plain(1, 1, "\7\7\7"))}});
  const auto table =
      ReadImages({{"a.tar", archive}}, {.classes = {"cat", "dog", "owl"}}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  const v1::DatasetDescription description = DescribeTable(*table);
  ASSERT_EQ(description.columns_size(), 2);
  EXPECT_EQ(description.columns(0).data_type(), v1::UINT8);
  EXPECT_EQ(description.columns(0).maximum(), 7);
  const v1::DatasetColumn& labels = description.columns(1);
  EXPECT_EQ(labels.name(), "labels");
  EXPECT_TRUE(labels.is_text());
  EXPECT_THAT(labels.categories(), ElementsAre("cat", "dog", "owl"));
  EXPECT_THAT(labels.category_rows(), ElementsAre(1, 2, 0));
  EXPECT_THAT(labels.first_values(), ElementsAre("dog", "cat", "dog"));
  EXPECT_FALSE(description.has_audio());
}

TEST(DescribeTableTest, RecordingsHaveARateChannelsAndLengths) {
  const std::string archive = files::Tar(
      {{"a/1.wav", files::Sound({.rate = 4000, .numbers = {0.5f, 0.25f}})},
       {"b/2.wav", files::Sound({.rate = 4000, .numbers = {0, 0, 0, 0}})},
       {"b/3.wav", files::Sound({.rate = 4000, .numbers = {0, 0, 0, 0, 0}})}});
  const auto table = ReadAudio({{"a.tar", archive}}, {.samples = 3}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  const v1::DatasetDescription description = DescribeTable(*table);
  ASSERT_EQ(description.columns_size(), 2);
  EXPECT_EQ(description.columns(0).data_type(), v1::FLOAT32);
  EXPECT_EQ(description.columns(0).maximum(), 0.5);
  EXPECT_THAT(description.columns(1).categories(), ElementsAre("a", "b"));
  EXPECT_THAT(description.columns(1).category_rows(), ElementsAre(1, 2));
  const v1::AudioDescription& audio = description.audio();
  EXPECT_EQ(audio.rate(), 4000u);
  EXPECT_EQ(audio.channels(), 1u);
  EXPECT_EQ(audio.shortest_samples(), 2u);
  EXPECT_EQ(audio.longest_samples(), 5u);
  EXPECT_EQ(audio.cut_rows(), 2u);
  EXPECT_EQ(audio.padded_rows(), 1u);
}

TEST(DescribeTableTest, TokensWithoutRowsAreCounted) {
  const auto table = ReadText({{"a.txt", "a b a"}}, {"a", "b", "c", "d"}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  const v1::DatasetDescription description = DescribeTable(*table);
  const v1::DatasetColumn& labels = description.columns(1);
  EXPECT_THAT(labels.category_rows(), ElementsAre(2, 1, 0, 0));
  EXPECT_THAT(labels.categories(), ElementsAre("a", "b", "c", "d"));
}

TEST(DescribeTableTest, TextsHaveATokenizerAVocabularyAndFirstTokens) {
  const std::string text(40, 'a');
  auto table = ReadText({{"a.txt", text}}, {}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  v1::DatasetDescription description = DescribeTable(*table);
  EXPECT_EQ(description.text().tokenizer(), v1::TextDescription::BYTES);
  EXPECT_EQ(description.text().vocabulary(), 256u);
  EXPECT_EQ(description.text().tokens(), 40u);
  EXPECT_EQ(description.text().first_tokens_size(), 32);
  EXPECT_EQ(description.text().first_tokens(0), "a");
  table->text->tokenizer = TextFacts::Tokenizer::kUnigram;
  table->text->vocabulary = 8000;
  description = DescribeTable(*table);
  EXPECT_EQ(description.text().tokenizer(), v1::TextDescription::UNIGRAM);
  EXPECT_EQ(description.text().vocabulary(), 8000u);
}

}  // namespace
}  // namespace gpupool::engine
