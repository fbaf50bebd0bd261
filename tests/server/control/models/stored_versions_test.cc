#include "server/control/models/stored_versions.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

v1::ModelVersion Version(v1::VersionState state, const char* error) {
  v1::ModelVersion version;
  version.set_state(state);
  version.set_error(error);
  return version;
}

TEST(LoadOutcomeTest, OnlyAReadyVersionIsLoaded) {
  EXPECT_TRUE(LoadOutcome(Version(v1::READY, "")).ok());
  const absl::Status failed = LoadOutcome(Version(v1::LOAD_FAILED, "no room"));
  EXPECT_TRUE(absl::IsUnavailable(failed));
  EXPECT_EQ(failed.message(), "no room");
  EXPECT_TRUE(absl::IsNotFound(LoadOutcome(absl::NotFoundError("deleted"))));
}

TEST(LoadOutcomeTest, AnUnloadedVersionHasNoReasonOfItsOwn) {
  for (const char* error : {"", "of an earlier load"}) {
    EXPECT_EQ(LoadOutcome(Version(v1::UNLOADED, error)).message(),
              "it was unloaded during the wait");
  }
}

}  // namespace
}  // namespace gpupool::server
