#include "server/http/json_messages.h"

#include "gmock/gmock.h"
#include "gpupool/v1/job.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(JsonMessagesTest, ReadsNamesOfBothSpellingsAndNumbersInBothForms) {
  v1::WatchJobRequest request;
  for (const char* json :
       {R"({"id":"7","after_sequence":"3","mark_caught_up":true})",
        R"({"id":7,"afterSequence":3,"markCaughtUp":true})"}) {
    const auto wire = WireOfJson(*v1::WatchJobRequest::descriptor(), json);
    ASSERT_TRUE(wire.ok()) << wire.status();
    ASSERT_TRUE(request.ParseFromString(*wire));
    EXPECT_EQ(request.id(), 7u);
    EXPECT_EQ(request.after_sequence(), 3u);
    EXPECT_TRUE(request.mark_caught_up());
  }
}

TEST(JsonMessagesTest, AnEmptyTextIsAnEmptyMessage) {
  EXPECT_EQ(*WireOfJson(*v1::GetJobRequest::descriptor(), ""), "");
  EXPECT_EQ(*WireOfJson(*v1::GetJobRequest::descriptor(), "{}"), "");
}

TEST(JsonMessagesTest, AWrongTextHasTheWordsOfTheParser) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"idd":1})", "idd"},
      {R"({"id":"x"})", "x"},
      {"{\"id\":", "Expected a value"},
      {"{", "gpupool.v1.GetJobRequest"}};
  for (const auto& [json, words] : rows) {
    const auto wire = WireOfJson(*v1::GetJobRequest::descriptor(), json);
    EXPECT_TRUE(absl::IsInvalidArgument(wire.status())) << json;
    EXPECT_THAT(std::string(wire.status().message()), HasSubstr(words));
  }
}

TEST(JsonMessagesTest, AnswersHaveDefaultsAndLargeNumbersAsStrings) {
  v1::Job job;
  job.set_id(uint64_t{1} << 60);
  job.set_state(v1::RUNNING);
  const auto text = JsonOfWire(*v1::Job::descriptor(), job.SerializeAsString());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->find('\n'), text->npos);
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["id"], "1152921504606846976");
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["waiting_reason"], "");
  EXPECT_EQ(json["attempt"], 0);
  EXPECT_EQ(json["held"], false);
  EXPECT_EQ(json["devices"], nlohmann::json::array());
  EXPECT_FALSE(json.contains("spec"));
}

TEST(JsonMessagesTest, AResultOfZeroIsThereAndAnAbsentOneIsNot) {
  v1::Evaluation evaluation;
  evaluation.set_accuracy(0);
  auto text =
      JsonOfWire(*v1::Evaluation::descriptor(), evaluation.SerializeAsString());
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["accuracy"], 0);
  EXPECT_FALSE(json.contains("top_k_accuracy"));
  text = JsonOfWire(*v1::Progress::descriptor(), "");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(nlohmann::json::parse(*text).contains("loss"));
}

TEST(JsonMessagesTest, BytesThatAreNoMessageAreAnInternalError) {
  const auto text = JsonOfWire(*v1::Job::descriptor(), "\xff\xff");
  EXPECT_TRUE(absl::IsInternal(text.status()));
  EXPECT_THAT(std::string(text.status().message()),
              HasSubstr("gpupool.v1.Job of 2 bytes"));
}

}  // namespace
}  // namespace gpupool::server
