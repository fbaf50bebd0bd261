#include "server/repository/config_sequences.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/api/validation/sequence_options_check.h"
#include "server/repository/config_options.h"
#include "tests/server/repository/repository_fixture.h"

namespace gpupool::server {
namespace {

using google::protobuf::TextFormat;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Control = v1::SequenceOptions::Control;

inference::ModelConfig ParseConfig(const std::string& text) {
  inference::ModelConfig config;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

absl::StatusOr<ConfiguredServing> ReadServing(const std::string& text) {
  return ReadConfiguredServing("sum", ParseConfig(text));
}

TEST(ConfigSequencesTest, ReadsOldestWithControlsAndStates) {
  const auto read = ReadServing(R"(
max_batch_size: 8
output { name: "y" data_type: TYPE_FP32 dims: 2 }
output { name: "t" data_type: TYPE_FP32 dims: 2 }
sequence_batching {
  max_sequence_idle_microseconds: 5000
  oldest { max_candidate_sequences: 64 preferred_batch_size: 4
           max_queue_delay_microseconds: 90 }
  control_input { name: "start" control {
    kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
  control_input { name: "end" control {
    kind: CONTROL_SEQUENCE_END int32_false_true: [ -1, 2 ] } }
  control_input { name: "ready" control {
    kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } }
  control_input { name: "id" control {
    kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  state { input_name: "s" output_name: "t" data_type: TYPE_FP32 dims: 2 }
  state { input_name: "a" output_name: "b" data_type: TYPE_INT32 dims: 1
    initial_state { data_type: TYPE_INT32 dims: 1 zero_data: true } }
})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->serving.max_queue_delay_microseconds(), 90u);
  EXPECT_THAT(read->notes, ElementsAre(HasSubstr("preferred_batch_size")));
  const v1::SequenceOptions& options = read->serving.sequences();
  EXPECT_EQ(options.max_sequences(), 64u);
  EXPECT_EQ(options.max_idle_microseconds(), 5000u);
  EXPECT_FALSE(options.direct());
  ASSERT_EQ(options.controls_size(), 4);
  EXPECT_EQ(options.controls(0).kind(), Control::START);
  EXPECT_EQ(options.controls(0).data_type(), v1::FLOAT32);
  EXPECT_EQ(options.controls(1).kind(), Control::END);
  EXPECT_EQ(options.controls(1).false_value(), -1);
  EXPECT_EQ(options.controls(1).true_value(), 2);
  EXPECT_EQ(options.controls(2).kind(), Control::READY);
  EXPECT_EQ(options.controls(2).data_type(), v1::BOOL);
  EXPECT_EQ(options.controls(3).kind(), Control::ID);
  EXPECT_EQ(options.controls(3).data_type(), v1::UINT64);
  ASSERT_EQ(options.states_size(), 2);
  EXPECT_EQ(options.states(0).input(), "s");
  EXPECT_EQ(options.states(0).output(), "t");
  EXPECT_TRUE(options.states(0).answered());
  EXPECT_FALSE(options.states(1).answered());
}

TEST(ConfigSequencesTest, DirectHasASlotForEachRowOfABatch) {
  const auto read = ReadServing(
      "max_batch_size: 8 sequence_batching { direct { "
      "max_queue_delay_microseconds: 90 minimum_slot_utilization: 0.3 } }");
  ASSERT_TRUE(read.ok()) << read.status();
  const v1::SequenceOptions& options = read->serving.sequences();
  EXPECT_TRUE(options.direct());
  EXPECT_EQ(options.max_sequences(), 0u);    // max_batch_size
  EXPECT_EQ(options.enough_requests(), 3u);  // of 2.4
  EXPECT_EQ(read->serving.max_queue_delay_microseconds(), 90u);
}

TEST(ConfigSequencesTest, DirectWithoutAUtilizationWaitsForNothing) {
  const auto read = ReadServing(
      "max_batch_size: 8 sequence_batching { direct { "
      "max_queue_delay_microseconds: 90 } }");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->serving.max_queue_delay_microseconds(), 0u);
}

TEST(ConfigSequencesTest, WithoutAStrategyItIsDirect) {
  const auto read = ReadServing("sequence_batching { }");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->serving.sequences().direct());
}

struct RefusedSequences {
  const char* text;  // inside of sequence_batching
  const char* words;
};

void PrintTo(const RefusedSequences& refused, std::ostream* out) {
  *out << refused.text;
}

class RefusedSequencesTest : public ::testing::TestWithParam<RefusedSequences> {
};

TEST_P(RefusedSequencesTest, NamesTheFieldAndWhatToDo) {
  const absl::Status refused =
      ReadServing(absl::StrCat("max_batch_size: 4 sequence_batching { ",
                               GetParam().text, " }"))
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("config.pbtxt: sequence_batching"),
                    HasSubstr(GetParam().words)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedSequencesTest,
    ::testing::Values(
        RefusedSequences{"max_sequence_idle_microseconds: 86400000001",
                         "the limit is 86400000000, one day"},
        RefusedSequences{"oldest { max_candidate_sequences: 65537 }",
                         ".oldest.max_candidate_sequences is 65537"},
        RefusedSequences{"oldest { preferred_batch_size: 5 }",
                         ".oldest.preferred_batch_size has 5"},
        RefusedSequences{"oldest { max_queue_delay_microseconds: 20000000 }",
                         "max_queue_delay_microseconds is 20000000"},
        RefusedSequences{"direct { minimum_slot_utilization: 1.5 }",
                         ".direct.minimum_slot_utilization is 1.5"},
        RefusedSequences{"control_input { name: \"a\" }", "has 0 controls"},
        RefusedSequences{"control_input { control { } }", ".name is empty"},
        RefusedSequences{"control_input { name: \"a\" control { "
                         "int32_false_true: 0 } }",
                         ".control_input[0].control[0] needs one of"},
        RefusedSequences{"control_input { name: \"a\" control { "
                         "int32_false_true: [ 0, 1 ] "
                         "fp32_false_true: [ 0, 1 ] } }",
                         "needs one of"},
        RefusedSequences{"control_input { name: \"a\" control { "
                         "kind: CONTROL_SEQUENCE_CORRID "
                         "data_type: TYPE_STRING } }",
                         ".data_type is TYPE_STRING"},
        RefusedSequences{"state { output_name: \"o\" }",
                         ".state[0].input_name is empty"},
        RefusedSequences{"state { input_name: \"i\" output_name: \"o\" "
                         "initial_state { } }",
                         "has no data"},
        RefusedSequences{"state { input_name: \"i\" output_name: \"o\" "
                         "initial_state { dims: 2 zero_data: true } }",
                         ".initial_state[0].dims differs"},
        RefusedSequences{"state { input_name: \"i\" output_name: \"o\" "
                         "initial_state { data_file: \"../f\" } }",
                         "name a file in the model's folder initial_state"}));

TEST(ConfigSequencesTest, AnswersOfSequencesAreNotKept) {
  const auto read =
      ReadServing("sequence_batching { } response_cache { enable: true }");
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("remove one of them"));
}

class InitialStatesTest : public RepositoryTest {
 protected:
  absl::Status ReadStates(v1::SequenceOptions* options) {
    const auto config = ParseConfig(
        "sequence_batching { state { input_name: \"i\" output_name: \"o\" "
        "initial_state { data_file: \"first\" } } }");
    std::vector<std::string> notes;
    *options = *ReadSequences(config, 4, &notes);
    return ReadInitialStates(*ConfinedFolder::Open(root()), "sum", config,
                             options);
  }
};

TEST_F(InitialStatesTest, ComeFromTheFolderOfTheModel) {
  Write("sum/initial_state/first", "eight by");
  v1::SequenceOptions options;
  const absl::Status read = ReadStates(&options);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(options.states(0).initial(), "eight by");
}

TEST_F(InitialStatesTest, AreNamedWhenTheyCannotBeRead) {
  v1::SequenceOptions options;
  EXPECT_THAT(std::string(ReadStates(&options).message()),
              HasSubstr("sum/initial_state/first"));
  Write("sum/initial_state/first", "");
  EXPECT_THAT(std::string(ReadStates(&options).message()),
              HasSubstr("is empty"));
  Write("sum/initial_state/first", std::string(kMaxInitialStateBytes + 1, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadStates(&options)));
}

}  // namespace
}  // namespace gpupool::server
