#include "engine/base/status_place.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(StatusPlaceTest, ErrorsKeepTheirCodeAndOkStaysOk) {
  const absl::Status status =
      AtPlace("input 'ids'", absl::DataLossError("is too short"));
  EXPECT_EQ(status, absl::DataLossError("input 'ids': is too short"));
  EXPECT_TRUE(AtPlace("input 'ids'", absl::OkStatus()).ok());
}

}  // namespace
}  // namespace gpupool::engine
