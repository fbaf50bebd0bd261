#include "engine/base/elastic_devices.h"

#include <gmock/gmock.h>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ElasticDevicesTest, AreTheDivisorsOfTheBatchWithinTheBounds) {
  EXPECT_THAT(ElasticDevices(1, 8, 32), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(ElasticDevices(2, 6, 12), ElementsAre(2, 3, 4, 6));
  EXPECT_THAT(ElasticDevices(0, 2, 5), ElementsAre(1));
  EXPECT_THAT(ElasticDevices(1, 1024, 3), ElementsAre(1, 3));
}

TEST(ElasticDevicesTest, MayBeNone) {
  EXPECT_THAT(ElasticDevices(1, 0, 32), IsEmpty());
  EXPECT_THAT(ElasticDevices(5, 7, 32), IsEmpty());
  EXPECT_THAT(ElasticDevices(4, 8, 2), IsEmpty());
}

}  // namespace
}  // namespace gpupool::engine
