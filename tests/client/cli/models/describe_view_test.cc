#include <string>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DescribeViewTest : public CommandTest {
 protected:
  // Adds a dataset of 30 pets: their size, color and kind.
  void AddPets() {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Dataset& pets = server_.state.datasets["pets"];
    pets.set_name("pets");
    pets.mutable_layout()->set_format(v1::CSV);
    pets.mutable_layout()->set_text(v1::DatasetLayout::ONE_HOT);
    pets.add_files()->set_file_name("pets.csv");
    pets.mutable_files(0)->set_total_bytes(2048);
    pets.set_rows(30);
    pets.add_feature_shape(4);
    pets.set_classes(2);
    v1::DatasetDescription& description = *pets.mutable_description();
    description.set_dropped_rows(1);
    AddSize(*description.add_columns());
    v1::DatasetColumn& color = *description.add_columns();
    color.set_name("color");
    color.set_role(v1::DatasetColumn::FEATURE);
    color.set_is_text(true);
    for (const char* name : {"red", "bl\tue", ""}) color.add_categories(name);
    color.add_first_values("red");
    v1::DatasetColumn& kind = *description.add_columns();
    kind.set_name("kind");
    kind.set_role(v1::DatasetColumn::LABEL);
    kind.set_is_text(true);
    for (const char* name : {"cat", "dog"}) kind.add_categories(name);
    kind.add_category_rows(20);
    kind.add_category_rows(10);
    kind.add_first_values("cat");
  }

  v1::Dataset& Pets() { return server_.state.datasets["pets"]; }

  static void AddSize(v1::DatasetColumn& size) {
    size.set_name("size");
    size.set_role(v1::DatasetColumn::FEATURE);
    size.set_data_type(v1::FLOAT32);
    size.set_minimum(-1);
    size.set_mean(0.123456);
    size.set_maximum(12345);
    size.set_missing(3);
    size.add_first_values("-1");
  }
};

TEST_F(DescribeViewTest, ShowsColumnsClassesAndFirstRows) {
  AddPets();
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("stored    2.0 KiB (pets.csv)\n"));
  EXPECT_THAT(out(),
              HasSubstr("rows      30; 1 row with missing cells left out\n"));
  EXPECT_THAT(out(), HasSubstr("features  4\nlabels    1, 2 classes\n"));
  EXPECT_THAT(
      out(),
      HasSubstr("size\tfeature\tfloat32\t1\t-1\t0.12346\t12345\t3\t-\n"));
  EXPECT_THAT(out(), HasSubstr("color\tfeature\ttext, one-hot\t3\t-\t-\t-\t0\t"
                               "3: red, bl\\tue, (missing)\n"));
  EXPECT_THAT(out(), HasSubstr("kind\tlabel\ttext, index\t1\t-\t-\t-\t0\t"
                               "2: cat, dog\n"));
  EXPECT_THAT(out(), HasSubstr("classes of kind\n"));
  EXPECT_THAT(out(), HasSubstr("0\tcat\t20\t66.7%\t████████████████████\n"));
  EXPECT_THAT(out(), HasSubstr("1\tdog\t10\t33.3%\t██████████\n"));
  EXPECT_THAT(out(),
              HasSubstr("first rows\nsize\tcolor\tkind\n-1\tred\tcat\n"));
}

TEST_F(DescribeViewTest, TextsThatAreBytesHaveALength) {
  AddPets();
  {
    absl::MutexLock lock(&server_.state.mutex);
    Pets().mutable_layout()->set_text(v1::DatasetLayout::BYTES);
    Pets().mutable_layout()->set_text_length(24);
    Pets().mutable_description()->mutable_columns(1)->clear_categories();
  }
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("color\tfeature\ttext, bytes\t24\t"));
  EXPECT_THAT(out(), HasSubstr("kind\tlabel\ttext, index\t1\t"));
}

TEST_F(DescribeViewTest, RecordingsHaveARateAndLengths) {
  AddPets();
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::AudioDescription& audio =
        *Pets().mutable_description()->mutable_audio();
    audio.set_rate(8000);
    audio.set_channels(1);
    audio.set_shortest_samples(4000);
    audio.set_longest_samples(6000);
    audio.set_cut_rows(2);
    audio.set_padded_rows(3);
  }
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("audio     8000 samples a second, 1 channel\n"
                               "lengths   4000 samples (0.5 s) to 6000 samples "
                               "(0.75 s), 2 cut, 3 padded\n"));
}

TEST_F(DescribeViewTest, TextsHaveTokensAVocabularyAndTheirFirstTokens) {
  AddPets();
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::TextDescription& text = *Pets().mutable_description()->mutable_text();
    text.set_tokenizer(v1::TextDescription::BPE);
    text.set_vocabulary(8000);
    text.set_tokens(12345);
    text.add_first_tokens("▁the");
    text.add_first_tokens("</s>");
  }
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("tokens    12,345 of a vocabulary of 8,000 "
                               "(SentencePiece, BPE)\n"
                               "begins    ▁the </s> ...\n"));
}

TEST_F(DescribeViewTest, ManyCategoriesClassesAndColumnsAreCut) {
  AddPets();
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::DatasetDescription& description = *Pets().mutable_description();
    for (int i = 0; i < 3; ++i) {
      description.mutable_columns(1)->add_categories(std::to_string(i));
    }
    for (int i = 0; i < 20; ++i) {
      description.mutable_columns(2)->add_category_rows(i == 0 ? 0 : 1);
    }
    for (int i = 0; i < 98; ++i) AddSize(*description.add_columns());
    description.set_columns_left_out(4);
  }
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("6: red, bl\\tue, (missing), 0, ...\n"));
  EXPECT_THAT(out(), HasSubstr("2\t-\t0\t0.0%\t-\n"));
  EXPECT_THAT(out(), HasSubstr("3\t-\t1\t2.0%\t█\n"));
  EXPECT_THAT(out(), Not(HasSubstr("\n20\t-\t")));
  EXPECT_THAT(out(), HasSubstr("and 2 more classes (-o json shows all)\n"));
  EXPECT_THAT(out(), HasSubstr("and 5 more columns\n"));
  EXPECT_THAT(out(), HasSubstr("first rows\nsize\tcolor\tkind\tsize\tsize\t"
                               "size\tsize\tsize\n"));
}

TEST_F(DescribeViewTest, QuotesAndBackslashesStayAsTheyAre) {
  AddPets();
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::DatasetColumn& color =
        *Pets().mutable_description()->mutable_columns(1);
    color.set_categories(0, "it's \"red\"");
    color.set_first_values(0, "C:\\data");
  }
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("3: it's \"red\", bl\\tue, (missing)\n"));
  EXPECT_THAT(out(), HasSubstr("-1\tC:\\data\tcat\n"));
}

TEST_F(DescribeViewTest, JsonHasEverything) {
  AddPets();
  ASSERT_EQ(Run({"datasets", "describe", "pets", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("\"category_rows\""));
  EXPECT_THAT(out(), HasSubstr("\"is_text\""));
}

TEST_F(DescribeViewTest, DatasetsOfOlderServersHaveNoDescription) {
  AddPets();
  {
    absl::MutexLock lock(&server_.state.mutex);
    Pets().clear_description();
  }
  ASSERT_EQ(Run({"datasets", "describe", "pets"}), 0);
  EXPECT_THAT(out(), HasSubstr("rows      30\n"));
  EXPECT_THAT(out(), HasSubstr("older server"));
  EXPECT_EQ(Run({"datasets", "describe", "none"}), 3);
}

}  // namespace
}  // namespace gpupool::client
