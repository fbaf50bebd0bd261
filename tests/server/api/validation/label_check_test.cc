#include "server/api/validation/label_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::OutputLabels* AddLabels(const std::string& output,
                            v1::ServingOptions* options) {
  v1::OutputLabels* const labels = options->add_labels();
  labels->set_output(output);
  return labels;
}

std::string LabelRefusal(const v1::ServingOptions& options) {
  const absl::Status status = CheckLabels("serving", options);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(LabelCheckTest, TakesWhatIsInTheLimits) {
  v1::ServingOptions options;
  EXPECT_TRUE(CheckLabels("serving", options).ok());
  AddLabels("a", &options)->add_labels(std::string(kMaxLabelBytes, 'x'));
  v1::OutputLabels* const many = AddLabels("b", &options);
  for (int i = 0; i < kMaxLabels; ++i) many->add_labels();
  EXPECT_TRUE(CheckLabels("serving", options).ok());
}

TEST(LabelCheckTest, NamesTheOutputAndTheLimit) {
  v1::ServingOptions options;
  v1::OutputLabels* const many = AddLabels("b", &options);
  for (int i = 0; i <= kMaxLabels; ++i) many->add_labels();
  EXPECT_THAT(LabelRefusal(options),
              AllOf(HasSubstr("serving.labels of output 'b' has 16385 labels"),
                    HasSubstr("16384")));
  options.Clear();
  AddLabels("a", &options)->add_labels(std::string(kMaxLabelBytes, 'x'));
  AddLabels("b", &options)->add_labels("y");
  EXPECT_THAT(LabelRefusal(options),
              AllOf(HasSubstr("65537 bytes"), HasSubstr("limit is 65536")));
  options.Clear();
  AddLabels("a", &options);
  AddLabels("a", &options);
  EXPECT_THAT(LabelRefusal(options), HasSubstr("the output 'a' twice"));
  options.Clear();
  for (int i = 0; i <= kMaxLabelledOutputs; ++i) options.add_labels();
  EXPECT_THAT(LabelRefusal(options), HasSubstr("129 entries"));
}

}  // namespace
}  // namespace gpupool::server
