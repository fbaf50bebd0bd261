#include "server/http/rest/rest_trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RestTraceTest, SettingsAreTextsAndListsOfTexts) {
  const auto request = ReadTraceRequest(
      R"({"trace_level":["TIMESTAMPS"],"trace_rate":"500","trace_count":-1,)"
      R"("log_frequency":18446744073709551615,"trace_file":[]})");
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& settings = request->settings();
  EXPECT_THAT(settings.at("trace_level").value(), ElementsAre("TIMESTAMPS"));
  EXPECT_THAT(settings.at("trace_rate").value(), ElementsAre("500"));
  EXPECT_THAT(settings.at("trace_count").value(), ElementsAre("-1"));
  EXPECT_THAT(settings.at("log_frequency").value(),
              ElementsAre("18446744073709551615"));
  EXPECT_THAT(settings.at("trace_file").value(), IsEmpty());
  EXPECT_TRUE(ReadTraceRequest("")->settings().empty());
}

TEST(RestTraceTest, OtherTypesAreRefusedByName) {
  for (const char* value : {"null", "0.5", "true", "{}", "[1]", "[[]]"}) {
    const absl::Status status =
        ReadTraceRequest(std::string(R"({"trace_rate":)") + value + "}")
            .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("trace setting 'trace_rate'"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ReadTraceRequest("[]").status()));
}

TEST(RestTraceTest, TheLevelIsAListAndTheOthersAreTexts) {
  inference::TraceSettingResponse response;
  auto& settings = *response.mutable_settings();
  settings["trace_rate"].add_value("1000");
  settings["trace_level"].add_value("OFF");
  settings["trace_file"].add_value("");
  EXPECT_EQ(TraceSettingsJson(response),
            R"({"trace_file":"","trace_level":["OFF"],"trace_rate":"1000"})");
  EXPECT_EQ(TraceSettingsJson({}), "{}");
}

}  // namespace
}  // namespace gpupool::server
