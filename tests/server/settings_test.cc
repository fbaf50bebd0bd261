#include "server/settings.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/ascii.h"

namespace gpupool::server {
namespace {

TEST(SettingsTest, EveryRowIsWhole) {
  for (const Setting& setting : Settings()) {
    EXPECT_NE(*setting.group, '\0') << setting.name;
    EXPECT_NE(*setting.kind.value_name, '\0') << setting.name;
    EXPECT_NE(*setting.help, '\0') << setting.name;
    EXPECT_NE(setting.kind.set, nullptr) << setting.name;
    EXPECT_TRUE(setting.initial.empty() != (*setting.unset == '\0'))
        << setting.name << " needs a default or what holds without one";
    for (const char c : std::string(setting.name)) {
      EXPECT_TRUE(absl::ascii_islower(c) || c == '-') << setting.name;
    }
  }
}

TEST(SettingsTest, NamesAreUniqueAndGroupsStandTogether) {
  std::set<std::string> names, groups;
  std::string group;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    if (setting.group == group) continue;
    group = setting.group;
    EXPECT_TRUE(groups.insert(group).second) << group;
  }
}

TEST(SettingsTest, DefaultsAreAllowed) {
  for (const Setting& setting : Settings()) {
    if (setting.initial.empty()) continue;
    Config config;
    EXPECT_TRUE(setting.kind.set(setting.initial, &config).ok())
        << setting.name;
  }
}

TEST(FindSettingTest, UnderlinesAndDashesAreTheSame) {
  ASSERT_NE(FindSetting("grpc-port"), nullptr);
  EXPECT_EQ(FindSetting("grpc_port"), FindSetting("grpc-port"));
  EXPECT_EQ(FindSetting("grpcport"), nullptr);
  EXPECT_EQ(FindSetting(""), nullptr);
}

TEST(NearestSettingTest, NamesOneThatIsNear) {
  EXPECT_EQ(NearestSetting("gprc_port"), "grpc-port");
  EXPECT_EQ(NearestSetting("banana"), "");
}

}  // namespace
}  // namespace gpupool::server
