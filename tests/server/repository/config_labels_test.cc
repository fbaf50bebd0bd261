#include "server/repository/config_labels.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/api/validation/label_check.h"
#include "tests/server/repository/repository_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfigLabelsTest : public RepositoryTest {
 protected:
  absl::StatusOr<v1::ServingOptions> ReadFor(const std::string& file) {
    inference::ModelConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("output { name: \"x\" } output { name: \"y\" "
                     "label_filename: \"",
                     file, "\" }"),
        &config));
    const auto root_folder = ConfinedFolder::Open(root());
    v1::ServingOptions options;
    const absl::Status read = ReadLabels(*root_folder, "a", config, &options);
    if (!read.ok()) return read;
    return options;
  }
  std::string Refusal(const std::string& file) {
    const absl::Status status = ReadFor(file).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
};

TEST_F(ConfigLabelsTest, ALineIsTheLabelOfItsIndex) {
  Write("a/labels.txt", "cat\r\n\nb\xc3\xa4r\n");
  const auto options = ReadFor("labels.txt");
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_EQ(options->labels_size(), 1);
  EXPECT_EQ(options->labels(0).output(), "y");
  EXPECT_THAT(options->labels(0).labels(),
              ElementsAre("cat", "", "b\xc3\xa4r"));
}

TEST_F(ConfigLabelsTest, TheLastLineNeedsNoEnd) {
  Write("a/labels.txt", "cat\ndog");
  EXPECT_THAT(ReadFor("labels.txt")->labels(0).labels(),
              ElementsAre("cat", "dog"));
}

TEST_F(ConfigLabelsTest, AFileThatCannotBeUsedIsNamed) {
  Write("a/empty.txt", "");
  Write("a/latin.txt", "cat\nb\xe4r\n");
  Write("a/long.txt", std::string(kMaxLabelBytes + 1, 'x'));
  Write("a/huge.txt", std::string(4 * kMaxLabelBytes, 'x'));
  Write("a/lines.txt", std::string(kMaxLabels + 1, '\n'));
  Write("secret.txt", "cat");
  EXPECT_THAT(Refusal("missing.txt"),
              HasSubstr("config.pbtxt: output[1].label_filename: "
                        "a/missing.txt "));
  EXPECT_THAT(Refusal("empty.txt"),
              HasSubstr("a/empty.txt is empty; write one label a line"));
  EXPECT_THAT(Refusal("latin.txt"),
              AllOf(HasSubstr("a/latin.txt: line 2"), HasSubstr("UTF-8")));
  EXPECT_THAT(Refusal("long.txt"), HasSubstr("65537 bytes of labels"));
  EXPECT_THAT(Refusal("huge.txt"), HasSubstr("a/huge.txt "));
  EXPECT_THAT(Refusal("lines.txt"),
              AllOf(HasSubstr("16385 lines"), HasSubstr("16384")));
  for (const char* outside : {"../secret.txt", "1/labels.txt", ".."}) {
    EXPECT_THAT(Refusal(outside), HasSubstr("in the folder of the model"));
  }
}

}  // namespace
}  // namespace gpupool::server
