#include "client/cli/output/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "gpupool/v1/job.pb.h"

namespace gpupool::client {
namespace {

v1::Job Sample() {
  v1::Job job;
  job.set_id(7);
  job.set_state(v1::RUNNING);
  job.mutable_spec()->set_device("cpu");
  return job;
}

TEST(MessageToJsonTest, KeepsProtoNamesAndAllKeys) {
  const auto json = nlohmann::json::parse(MessageToJson(Sample(), true));
  EXPECT_EQ(json["id"], "7") << "64-bit integers are strings";
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["spec"]["device"], "cpu");
  EXPECT_EQ(json["waiting_reason"], "");
  EXPECT_EQ(json["attempt"], 0);
}

TEST(MessageToJsonTest, FitsOneLineWhenNotPretty) {
  EXPECT_THAT(MessageToJson(Sample(), false),
              ::testing::Not(::testing::HasSubstr("\n")));
}

TEST(PrintResultTest, ChoosesTheFormat) {
  std::ostringstream out;
  const Stream stream{.stream = &out};
  const auto table = [&out] { out << "table"; };
  PrintResult(stream, OutputFormat::kTable, Sample(), table);
  EXPECT_EQ(out.str(), "table");
  out.str("");
  PrintResult(stream, OutputFormat::kJson, Sample(), table);
  EXPECT_TRUE(nlohmann::json::accept(out.str()));
  out.str("");
  PrintResult(stream, OutputFormat::kYaml, Sample(), table);
  EXPECT_EQ(out.str(), "id: 7\nspec:\n  device: cpu\nstate: RUNNING\n");
}

}  // namespace
}  // namespace gpupool::client
