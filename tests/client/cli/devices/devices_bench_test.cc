#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

using DevicesBenchTest = CommandTest;

TEST_F(DevicesBenchTest, PrintsTheMeasurements) {
  EXPECT_EQ(Run({"devices", "bench", "cpu:0", "--no-headers"}), 0);
  EXPECT_EQ(out(),
            "copy to device, pinned\t4.0 KiB\t2 us\t1.9 GiB/s\n"
            "bfloat16 product\t1000 rows\t2 ms\t1.0TFLOP/s\n"
            "allocation and free\t1.0 MiB\t80 ns\t-\n"
            "left out: float16 products: no kernel\n");
  EXPECT_EQ(Run({"devices", "bench", "cpu:0", "--force", "-o", "json"}), 0);
  const nlohmann::json json = nlohmann::json::parse(out());
  EXPECT_EQ(json["device"], "cpu:0");
  EXPECT_EQ(json["beside_work"], true);
}

TEST_F(DevicesBenchTest, TheLastResultNeedsNoMeasurement) {
  EXPECT_EQ(Run({"devices", "bench", "cpu:1", "--last", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["device"], "cpu:1");
  EXPECT_EQ(Run({"devices", "bench", "cpu:1", "--last", "--force"}), 2);
  EXPECT_EQ(Run({"devices", "bench"}), 2);
}

TEST_F(DevicesBenchTest, WritesAPicture) {
  const std::string file = WriteFile("bench.svg", "");
  EXPECT_EQ(Run({"devices", "bench", "cpu:0", "-O", file}), 0);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("Copies of cpu:0"));
}

}  // namespace
}  // namespace gpupool::client
