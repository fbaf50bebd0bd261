#include "server/settings_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr char kBegin[] = "<!-- begin: gpupoold --list-settings -->\n";
constexpr char kEnd[] = "<!-- end: gpupoold --list-settings -->\n";

TEST(HelpTextTest, SaysTheRangeAndTheDefault) {
  EXPECT_EQ(HelpText(*FindSetting("slots")),
            "maximum number of batches in flight on each worker (1 to 1024; "
            "default: 64)");
  EXPECT_THAT(HelpText(*FindSetting("model-limit")),
              HasSubstr("(1 to 64TiB; default: 8GiB)"));
  EXPECT_THAT(HelpText(*FindSetting("worker-binary")),
              HasSubstr("(default: gpupool-worker beside gpupoold)"));
  EXPECT_THAT(HelpText(*FindSetting("log-level")),
              HasSubstr("(debug, info, warning or error; default: info)"));
  EXPECT_THAT(HelpText(*FindSetting("log-format")),
              HasSubstr("(text or json; default: text)"));
}

TEST(SettingsTablesTest, HaveOneRowForEachSetting) {
  const std::string tables = SettingsTables();
  for (const Setting& setting : Settings()) {
    EXPECT_THAT(tables,
                HasSubstr(absl::StrCat("\n| `--", setting.name, " ",
                                       setting.kind.value_name, "` | ")));
    EXPECT_THAT(tables, HasSubstr(setting.help));
    EXPECT_EQ(std::string(setting.help).find('|'), std::string::npos)
        << "would end a cell";
  }
}

// Between the two comments, the page of the documentation has exactly the
// tables.
TEST(SettingsTablesTest, TheDocumentationHasThem) {
  std::ifstream file(SourcePath("docs/operations.md"));
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(absl::StrCat(kBegin, "\n", SettingsTables(),
                                                 "\n", kEnd)))
      << "write what `gpupoold --list-settings` prints between the comments in "
         "docs/operations.md";
}

}  // namespace
}  // namespace gpupool::server
