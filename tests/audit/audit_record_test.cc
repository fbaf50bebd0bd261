#include "audit/audit_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace gpupool::audit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Place FirstPlace() {
  return {.sequence = 1, .previous = std::string(kNoDigest)};
}

TEST(AuditRecordTest, ALineHasWhatIsKnownAndNoMore) {
  Record record;
  record.time = absl::FromUnixMicros(1'700'000'000'250'000);
  record.event = "call";
  record.token = 3;
  record.role = "user";
  record.object = "id=7";
  EXPECT_EQ(
      LineOf(record, FirstPlace()),
      absl::StrCat("{\"sequence\":1,\"time\":\"2023-11-14T22:13:20.250000Z"
                   "\",\"event\":\"call\",\"token\":3,\"role\":\"user\","
                   "\"object\":\"id=7\",\"previous\":\"",
                   kNoDigest, "\"}"));
}

TEST(AuditRecordTest, TheDigestIsSha256) {
  EXPECT_EQ(DigestOfLine("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AuditRecordTest, APlaceIsReadBack) {
  const Place place = {.sequence = 12, .previous = DigestOfLine("abc")};
  const auto read = PlaceIn(LineOf({}, place));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->sequence, 12u);
  EXPECT_EQ(read->previous, place.previous);
}

TEST(AuditRecordTest, HostileTextsMakeOneShortLineOfValidJson) {
  const std::string control(1'000'000, '\x01');
  Record record;
  for (std::string* text :
       {&record.event, &record.identity, &record.name, &record.tenant,
        &record.role, &record.peer, &record.uid, &record.method, &record.object,
        &record.request_id, &record.outcome, &record.note}) {
    *text = control;
  }
  record.name = "\xff\n\"}";
  const std::string line = LineOf(record, FirstPlace());
  EXPECT_LE(line.size(), kMostLineBytes);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_TRUE(nlohmann::json::accept(line));
  EXPECT_TRUE(PlaceIn(line).ok());
}

TEST(AuditRecordTest, ALineIsPlainAscii) {
  Record record;
  record.name =
      "m\xc3\xbcller \xc2\x9b"
      "2J \x7f \xff";
  EXPECT_THAT(LineOf(record, FirstPlace()),
              HasSubstr(R"("name":"m\u00fcller \u009b2J \u007f \ufffd")"));
}

TEST(AuditRecordTest, OtherLinesAreNoRecords) {
  for (const char* line : {"", "x", "[]", "{}", R"({"sequence":1})",
                           R"({"sequence":-1,"previous":"0"})",
                           R"({"sequence":1,"previous":"00"})",
                           R"({"sequence":1,"previous":7})"}) {
    EXPECT_EQ(PlaceIn(line).status().code(), absl::StatusCode::kInvalidArgument)
        << line;
  }
}

}  // namespace
}  // namespace gpupool::audit
