#include "server/serving/text/text_runner.h"

#include <google/protobuf/text_format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::TextProgram ProgramOf(const std::string& text) {
  v1::TextProgram program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &program));
  return program;
}

constexpr char kEncode[] = R"(
constants { data_type: STRING shape: 1 texts: "dog" }
nodes { name: "Concat 'join'" op: CONCAT inputs: [ 0, 1 ] }
nodes { name: "LabelEncoder 'encode'" op: LABEL_ENCODER inputs: 2
        tables { data_type: STRING shape: 2 texts: [ "cat", "dog" ] }
        tables { data_type: INT64 shape: 2 integers: [ 7, 8 ] }
        tables { data_type: INT64 shape: 1 integers: -1 } }
nodes { name: "Cast 'text'" op: CAST inputs: 3 output_type: STRING }
outputs: [ 3, 4 ])";

TEST(TextRunnerTest, NodesReadInputsConstantsAndEachOther) {
  const auto runner = TextRunner::Create(ProgramOf(kEncode), 1);
  ASSERT_TRUE(runner.ok()) << runner.status();
  TextMemory memory;
  const auto outputs = (*runner)->Run({TextsOf({"cat", "fox"}, {2})}, memory);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].integers, ElementsAre(7, -1, 8));
  EXPECT_THAT((*outputs)[1].texts, ElementsAre("7", "-1", "8"));
}

TEST(TextRunnerTest, AnErrorNamesTheNode) {
  const auto runner = TextRunner::Create(ProgramOf(kEncode), 1);
  ASSERT_TRUE(runner.ok());
  TextMemory memory;
  const absl::Status status =
      (*runner)->Run({TextsOf({"cat"}, {1, 1})}, memory).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Concat 'join': "));
}

TEST(TextRunnerTest, EqualComparesTextsWithBroadcasting) {
  const auto runner = TextRunner::Create(
      ProgramOf("nodes { name: 'e' op: EQUAL inputs: [ 0, 1 ] } outputs: 2"),
      2);
  TextMemory memory;
  const auto outputs =
      (*runner)->Run({TextsOf({"a", "b"}, {2}), TextsOf({"b"}, {1})}, memory);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].type, v1::BOOL);
  EXPECT_THAT((*outputs)[0].integers, ElementsAre(0, 1));
}

TEST(TextRunnerTest, StringConcatMakesTextsOfABoundedSize) {
  const auto runner = TextRunner::Create(
      ProgramOf("nodes { name: 'c' op: STRING_CONCAT inputs: [ 0, 0 ] } "
                "outputs: 1"),
      1);
  TextMemory memory;
  EXPECT_THAT((*(*runner)->Run({TextsOf({"ab"}, {1})}, memory))[0].texts,
              ElementsAre("abab"));
  const std::string large(TextMemory::kMostBytes / 2, 'x');
  EXPECT_TRUE(absl::IsResourceExhausted(
      (*runner)->Run({TextsOf({large}, {1})}, memory).status()));
}

TEST(TextRunnerTest, AWrongProgramIsRefused) {
  for (const char* wrong :
       {"nodes { op: IDENTITY inputs: 5 }", "nodes { op: GATHER inputs: 0 }",
        "nodes { inputs: 0 }", "outputs: 9",
        "nodes { op: LABEL_ENCODER inputs: 0 }",
        "nodes { op: CAST inputs: 0 output_type: UINT64 }",
        "constants { data_type: STRING shape: 2 texts: 'a' }",
        "nodes { op: TFIDF_VECTORIZER inputs: 0 }"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        TextRunner::Create(ProgramOf(wrong), 1).status()))
        << wrong;
  }
}

}  // namespace
}  // namespace gpupool::server
