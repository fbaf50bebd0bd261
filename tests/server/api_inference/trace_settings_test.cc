#include "server/api/inference/trace_settings.h"

#include <gmock/gmock.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/server/serving/served_model.h"
#include "tests/server/trace/test_collector.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

// The catalogue, with the models "coming" and "idle".
absl::StatusOr<v1::Model> FindStored(absl::string_view name) {
  v1::Model model;
  model.set_name(std::string(name));
  if (name == "coming") {
    model.add_versions()->set_state(v1::LOADING);
  } else if (name == "idle") {
    model.add_versions()->set_state(v1::UNLOADED);
  } else {
    return absl::NotFoundError("no such model");
  }
  return model;
}

class TraceSettingsTest : public ::testing::Test {
 protected:
  TraceSettingsTest() {
    registry_.Add(MakeServedVersion("digits", 1, 10, &timer_));
  }
  static TracerOptions Options(const TestCollector& collector) {
    return {.sampling = 0.01, .exporter = collector.options()};
  }
  void Set(const std::string& name, const std::string& value) {
    (*request_.mutable_settings())[name].add_value(value);
  }
  // Sends the settings, and forgets them.
  absl::Status Answer() {
    response_.Clear();
    const absl::Status status =
        AnswerTraceSetting(request_, router_, &tracer_, &response_);
    request_.Clear();
    return status;
  }
  std::string Value(const std::string& name) {
    const auto found = response_.settings().find(name);
    if (found == response_.settings().end()) return "(none)";
    return found->second.value_size() == 1 ? found->second.value(0) : "(many)";
  }
  // Expects an error that changes nothing.
  void Refused(absl::StatusCode code, const std::string& text) {
    const double before = tracer_.sampling();
    const absl::Status status = Answer();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(tracer_.sampling(), before);
    EXPECT_TRUE(response_.settings().empty());
  }

  WakeTimer timer_;
  ModelRegistry registry_;
  const Router router_{&registry_, FindStored};
  TestCollector collector_;
  Tracer tracer_{Options(collector_)};
  inference::TraceSettingRequest request_;
  inference::TraceSettingResponse response_;
};

TEST_F(TraceSettingsTest, ARequestWithoutSettingsReads) {
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(Value("trace_level"), "TIMESTAMPS");
  EXPECT_EQ(Value("trace_rate"), "100");
  EXPECT_EQ(Value("trace_mode"), "opentelemetry");
  EXPECT_EQ(Value("trace_count"), "-1");
  EXPECT_EQ(Value("log_frequency"), "0");
  EXPECT_EQ(Value("trace_file"), "");
  EXPECT_EQ(response_.settings().size(), 6);
}

TEST_F(TraceSettingsTest, AModelHasTheSettingsOfTheServer) {
  request_.set_model_name("digits");
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(Value("trace_rate"), "100");
  request_.set_model_name("digits");
  Set("trace_rate", "5");
  Refused(absl::StatusCode::kUnimplemented, "leave model_name empty");
}

TEST_F(TraceSettingsTest, RefusesAModelThatIsNotThere) {
  for (const char* model : {"cats", "idle"}) {
    request_.set_model_name(model);
    Refused(absl::StatusCode::kNotFound, "Request for unknown model: '");
    request_.set_model_name(model);
    Set("trace_rate", "5");
    Refused(absl::StatusCode::kNotFound, model);
  }
  request_.set_model_name("coming");
  EXPECT_TRUE(Answer().ok());
}

TEST_F(TraceSettingsTest, TheRateIsTheShare) {
  Set("trace_rate", "4");
  ASSERT_TRUE(Answer().ok());
  EXPECT_DOUBLE_EQ(tracer_.sampling(), 0.25);
  EXPECT_EQ(Value("trace_rate"), "4");
}

TEST_F(TraceSettingsTest, OffTracesNoneAndOnTracesAgain) {
  Set("trace_level", "OFF");
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(tracer_.sampling(), 0);
  EXPECT_EQ(Value("trace_level"), "OFF");
  Set("trace_level", "TIMESTAMPS");
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(Value("trace_level"), "TIMESTAMPS");
  EXPECT_EQ(Value("trace_rate"), "1000");
  Set("trace_level", "OFF");
  Set("trace_rate", "2");
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(tracer_.sampling(), 0);
}

TEST_F(TraceSettingsTest, FixedSettingsTakeOnlyTheirValue) {
  Set("trace_mode", "opentelemetry");
  Set("trace_count", "-1");
  EXPECT_TRUE(Answer().ok());
  Set("trace_mode", "triton");
  Refused(absl::StatusCode::kUnimplemented, "trace_mode is opentelemetry");
  Set("trace_file", "/tmp/trace");
  Refused(absl::StatusCode::kUnimplemented,
          "file location can not be updated through network protocol");
}

TEST_F(TraceSettingsTest, RefusesWhatItDoesNotKnow) {
  Set("trace_level", "TENSORS");
  Refused(absl::StatusCode::kUnimplemented, "TIMESTAMPS");
  Set("trace_level", "SOME");
  Refused(absl::StatusCode::kInvalidArgument, "OFF or TIMESTAMPS");
  for (const char* rate : {"0", "-1", "many", ""}) {
    Set("trace_rate", rate);
    Refused(absl::StatusCode::kInvalidArgument, "from 1 to");
  }
  Set("trace_colour", "red");
  Refused(absl::StatusCode::kInvalidArgument, "no trace setting");
  (*request_.mutable_settings())["trace_rate"].Clear();
  Refused(absl::StatusCode::kInvalidArgument, "give one");
}

TEST_F(TraceSettingsTest, OneWrongSettingChangesNothing) {
  Set("trace_rate", "2");
  Set("trace_mode", "triton");
  Refused(absl::StatusCode::kUnimplemented, "trace_mode");
}

TEST(AnswerTraceSettingTest, WithoutTracesItSaysHowToHaveThem) {
  inference::TraceSettingResponse response;
  const ModelRegistry registry;
  const Router router(&registry, FindStored);
  const absl::Status status =
      AnswerTraceSetting({}, router, nullptr, &response);
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--trace-endpoint"));
}

}  // namespace
}  // namespace gpupool::server
