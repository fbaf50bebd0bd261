#include "client/cli/devices/doctor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

const std::vector<DoctorFinding>& Three() {
  static const std::vector<DoctorFinding> findings = {
      {"container.none", "ok", "not in a container", ""},
      {"limits.cores", "warn", "16 cores are seen", "raise the quota"},
      {"driver.too_old", "fail", "the driver is too old", "install 580"}};
  return findings;
}

std::string Printed(const std::vector<DoctorFinding>& findings,
                    Stream stream = {}) {
  std::ostringstream text;
  stream.stream = &text;
  PrintFindings(findings, stream);
  return text.str();
}

TEST(DoctorViewTest, RemediesStandBeneathWhatWasFound) {
  EXPECT_EQ(Printed(Three()),
            "[ok]    not in a container\n"
            "[warn]  16 cores are seen\n"
            "        -> raise the quota\n"
            "[fail]  the driver is too old\n"
            "        -> install 580\n"
            "1 failure, 1 warning\n");
}

TEST(DoctorViewTest, SaysWhenNothingIsWrong) {
  EXPECT_EQ(Printed({{"driver.none", "note", "no GPU", "buy one"}}),
            "[note]  no GPU\n        -> buy one\nnothing is wrong\n");
}

TEST(DoctorViewTest, ATerminalGetsLinesOfItsWidthAndColour) {
  const std::vector<DoctorFinding> findings = {
      {"a.b", "fail", "one two three four five six seven eight nine ten eleven",
       ""}};
  EXPECT_EQ(
      Printed(findings, {.is_terminal = true, .color = true, .width = 48}),
      "\x1b[31m[fail]\x1b[0m  one two three four five six seven eight\n"
      "        nine ten eleven\n"
      "1 failure, 0 warnings\n");
}

TEST(DoctorViewTest, ReadsTheLineOfJsonAndNothingElse) {
  const auto findings = ReadFindings(
      "a banner\n{\"findings\":[{\"id\":\"a.b\",\"severity\":\"fail\","
      "\"text\":\"t\",\"remedy\":\"r\"},3]}\n");
  ASSERT_TRUE(findings.ok()) << findings.status();
  ASSERT_EQ(findings->size(), 1u);
  EXPECT_EQ(findings->at(0).id, "a.b");
  EXPECT_EQ(findings->at(0).remedy, "r");
  EXPECT_TRUE(client::HasFailure(*findings));
  for (const char* text : {"", "{", "{}", "[]", "{\"findings\":3}"}) {
    EXPECT_TRUE(absl::IsUnavailable(ReadFindings(text).status())) << text;
  }
}

TEST(DoctorViewTest, JsonCountsThem) {
  const auto json = nlohmann::json::parse(FindingsJson(Three()));
  EXPECT_EQ(json.at("failures"), 1);
  EXPECT_EQ(json.at("warnings"), 1);
  EXPECT_EQ(json.at("findings").at(2).at("remedy"), "install 580");
}

}  // namespace
}  // namespace gpupool::client
