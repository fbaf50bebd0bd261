#include "client/server_defaults.h"

#include <gtest/gtest.h>

#include "server/config.h"

namespace gpupool::client {
namespace {

TEST(ServerDefaultsTest, AreThoseOfTheServersSettings) {
  const server::Config config;
  EXPECT_EQ(kDefaultGrpcPort, config.grpc_port);
  EXPECT_EQ(kDefaultHttpPort, config.http_port);
  EXPECT_EQ(kDefaultMetricsPort, config.metrics_port);
  EXPECT_EQ(kDefaultHost, config.listen);
  EXPECT_EQ(kDefaultStateDir, config.state_dir);
}

TEST(ServerDefaultsTest, TextsAreMadeOfThem) {
  EXPECT_EQ(DefaultServerAddress(), "127.0.0.1:8001");
  EXPECT_EQ(DefaultPorts(), "8001,8000,8002");
  EXPECT_EQ(DefaultSocket(), "gpupool-state/gpupoold.sock");
}

}  // namespace
}  // namespace gpupool::client
