#include "server/worker/doctor/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(FindingsTest, IdsAreUniqueAndHaveAnArea) {
  std::set<std::string> seen;
  for (const FindingKind& kind : FindingKinds()) {
    EXPECT_TRUE(seen.insert(kind.id).second) << kind.id;
    EXPECT_THAT(std::string(kind.id), HasSubstr("."));
  }
}

TEST(FindingsTest, WordsTakeTheirPlaces) {
  Findings findings;
  findings.Add("port.held", {"8001", "`--grpc-port`"});
  ASSERT_EQ(findings.all().size(), 1u);
  EXPECT_EQ(findings.all()[0].text, "something listens on port 8001");
  EXPECT_THAT(findings.all()[0].remedy, HasSubstr("sport = :8001"));
  EXPECT_THAT(findings.all()[0].remedy, HasSubstr("another `--grpc-port`"));
}

TEST(FindingsTest, TheWorstDecides) {
  Findings findings;
  EXPECT_EQ(findings.worst(), Severity::kOk);
  findings.Add("driver.none");
  EXPECT_EQ(findings.worst(), Severity::kNote);
  findings.Add("gpu.none");
  findings.Add("container.none");
  EXPECT_EQ(findings.worst(), Severity::kFail);
}

TEST(FindingsTest, SomeFailOnlyWhereAGpuIsExpected) {
  Findings findings(/*expect_gpu=*/true);
  findings.Add("driver.none");
  findings.Add("driver.wsl");
  EXPECT_EQ(findings.all()[0].severity, Severity::kFail);
  EXPECT_EQ(findings.all()[1].severity, Severity::kNote);
}

TEST(FindingsTest, JsonHoldsEverything) {
  Findings findings;
  findings.Add("state.not_writable", {"/a \"b\"", "\xff"});
  const auto json = nlohmann::json::parse(ToJson(findings));
  const auto& one = json.at("findings").at(0);
  EXPECT_EQ(one.at("id"), "state.not_writable");
  EXPECT_EQ(one.at("severity"), "fail");
  EXPECT_THAT(one.at("text").get<std::string>(), HasSubstr("/a \"b\""));
}

// The page of the documentation contains exactly this table.
TEST(FindingsTest, TheDocumentationHasTheTable) {
  std::ifstream file(SourcePath("docs/doctor.md"));
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(FindingsTable()))
      << "write the rows that `gpupool-worker doctor --list` prints to "
         "docs/doctor.md";
}

}  // namespace
}  // namespace gpupool::server
