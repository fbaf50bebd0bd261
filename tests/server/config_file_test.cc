#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/settings.h"
#include "tests/server/store/temp_dir.h"
#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfigFileTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& text) {
    const std::string path = directory_ / "gpupoold.yaml";
    std::ofstream(path) << text;
    return ReadConfigFile(path, &config_);
  }

  void Taken(const std::string& text) {
    const absl::Status status = Read(text);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
  }

  void Refused(const std::string& text,
               const std::vector<std::string>& fragments) {
    const absl::Status status = Read(text);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    for (const std::string& fragment : fragments) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
    }
  }

  TempDir directory_;
  Config config_;
};

TEST_F(ConfigFileTest, SetsWhatItNamesAndKeepsTheRest) {
  Taken("grpc-port: 0\ndevice_memory: 1.5GiB\ndevices: cpu:2\n");
  EXPECT_EQ(config_.grpc_port, 0);
  EXPECT_EQ(config_.device_memory_bytes, uint64_t{3} << 29);
  EXPECT_EQ(config_.devices, "cpu:2");
  EXPECT_EQ(config_.http_port, 8000);
}

// The keys and the one-line forms that files had before lists were allowed.
TEST_F(ConfigFileTest, OneLineIsEnoughForEverySetting) {
  Taken(
      "order: srs\npreempt_hysteresis: 1.5\nmin-run: 0\nrestart-cost: 7\n"
      "tenants: a:weight=2;a.b:most=3\nusage-half-life: 3600\n"
      "queues: a:order=las,rank=2;b:min-run=7\nplacement: pack\n"
      "serving-target-delay: 0.25\ngrow-after: 9\nkeep_jobs: 5\n");
  EXPECT_EQ(config_.scheduling.order, scheduler::Order::kShortestRemaining);
  EXPECT_EQ(config_.scheduling.hysteresis, 1.5);
  EXPECT_EQ(config_.scheduling.tenants.at("a").weight, 2);
  EXPECT_EQ(config_.scheduling.tenants.at("a.b").most, 3u);
  EXPECT_EQ(config_.scheduling.usage_half_life, absl::Hours(1));
  EXPECT_EQ(config_.scheduling.min_run, absl::ZeroDuration());
  EXPECT_EQ(config_.scheduling.restart_cost, absl::Seconds(7));
  EXPECT_EQ(config_.scheduling.grow_after, absl::Seconds(9));
  EXPECT_EQ(config_.scheduling.placement, scheduler::PlacementRule::kPack);
  EXPECT_EQ(config_.serving_target_delay, absl::Milliseconds(250));
  EXPECT_EQ(config_.keep_jobs, 5u);
  ASSERT_EQ(SchedulingOf(config_).queues.size(), 2u);
}

TEST_F(ConfigFileTest, EveryRowIsAKeyAndNothingElseIs) {
  for (const Setting& setting : Settings()) {
    if (setting.initial.empty()) continue;
    Taken(std::string(setting.name) + ": " + setting.initial + "\n");
  }
  for (const char* verb :
       {"config", "check", "backup", "version", "help", "list-settings"}) {
    Refused(std::string(verb) + ": x\n", {"unknown key", verb});
  }
}

TEST_F(ConfigFileTest, DevicesFoldersAndNamesMayBeLists) {
  Taken("devices: [cuda:0, cuda:2, cpu:1]\ncuda-lib-dir:\n  - /a\n  - /b\n");
  EXPECT_EQ(config_.devices, "cuda:0,cuda:2,cpu:1");
  EXPECT_EQ(config_.cuda_lib_dir, "/a:/b");
  Taken("model_repository: [/models, /more]\nmodel-control-mode: poll\n");
  EXPECT_EQ(config_.model_repositories, "/models:/more");
  EXPECT_EQ(config_.model_control_mode, "poll");
  Taken("http-names: [gpus, gpus.lab]\n");
  EXPECT_EQ(config_.http_names, "gpus,gpus.lab");
  Refused("devices: [cpu:0]\n",
          {"devices is [cpu:0] at line 1, column 10", "write cpu:1"});
  Refused("devices: [[cpu:1]]\n", {"an item at line 1, column 11"});
  Refused("devices: []\n", {"devices is []"});
}

TEST_F(ConfigFileTest, TenantsMayBeAList) {
  Taken(
      "tenants:\n"
      "  - {name: research, weight: 3, guaranteed: 4}\n"
      "  - name: research.vision\n"
      "    most: 2\n");
  const scheduler::TenantShares& tenants = config_.scheduling.tenants;
  ASSERT_EQ(tenants.size(), 2u);
  EXPECT_EQ(tenants.at("research").weight, 3);
  EXPECT_EQ(tenants.at("research").guaranteed, 4u);
  EXPECT_EQ(tenants.at("research.vision").most, 2u);
}

TEST_F(ConfigFileTest, QueuesMayBeAListThatSaysTheSameAsTheLine) {
  Taken(
      "queues: short:order=las,rank=10,preempts=yes,devices=cuda:4+cpu,most=2,"
      "tenants=shop+lab.a,hysteresis=1.5,min-run=7;night:rank=-5\n");
  const std::vector<scheduler::Queue> line = SchedulingOf(config_).queues;
  Taken(
      "queues:\n"
      "  - name: short\n"
      "    order: las\n"
      "    rank: 10\n"
      "    preempts: true\n"
      "    devices: [cuda:4, cpu]\n"
      "    most: 2\n"
      "    tenants:\n"
      "      - shop\n"
      "      - lab.a\n"
      "    hysteresis: 1.5\n"
      "    min_run: 7\n"
      "  - {name: night, rank: -5}\n");
  const std::vector<scheduler::Queue> list = SchedulingOf(config_).queues;
  ASSERT_EQ(list.size(), line.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].name, line[i].name);
    EXPECT_EQ(list[i].order, line[i].order);
    EXPECT_EQ(list[i].rank, line[i].rank);
    EXPECT_EQ(list[i].preempts, line[i].preempts);
    EXPECT_EQ(list[i].devices, line[i].devices);
    EXPECT_EQ(list[i].most, line[i].most);
    EXPECT_EQ(list[i].tenants, line[i].tenants);
    EXPECT_EQ(list[i].hysteresis, line[i].hysteresis);
    EXPECT_EQ(list[i].min_run, line[i].min_run);
  }
  EXPECT_TRUE(list[0].preempts);
  EXPECT_THAT(list[0].tenants, ElementsAre("shop", "lab.a"));
}

TEST_F(ConfigFileTest, ValuesOfAListAreNotReadAsMoreWords) {
  Refused("queues:\n  - {name: a, rank: \"1,order=las\"}\n",
          {"rank=1,order=las", "a rank is from"});
  Refused("tenants:\n  - {name: \"a:weight=1;b\", weight: 2}\n",
          {"is no name"});
}

TEST_F(ConfigFileTest, ErrorsInListsSayWhereTheWordStands) {
  Refused(
      "queues:\n  - name: a\n    rank: x\n",
      {"queues is a list at line 2, column 3", "queue 'a' at line 2, column 5",
       "rank=x at line 3, column 11", "a rank is from -1000 to 1000"});
  Refused("queues:\n  - {name: a, colour: red}\n",
          {"colour=red at line 2, column 23", "known are order=, rank="});
  Refused("tenants:\n  - {name: a, weight: 1}\n  - {name: a, weight: 2}\n",
          {"tenant 'a' at line 3, column 5", "is there twice"});
  Refused("tenants:\n  - {weight: 1}\n",
          {"the entry at line 2, column 5 has no name"});
  Refused("tenants: [research]\n", {"the entry at line 1, column 11"});
  Refused("tenants:\n  - {name: a, weight: {b: 1}}\n",
          {"weight at line 2, column 23", "a value or a list of values"});
  Refused("tenants:\n  - {name: a, [b]: 1}\n", {"a key at line 2"});
  Refused("tenants: {a: {weight: 1}}\n",
          {"tenants is a map at line 1", "a list of entries with names"});
  Refused("tenants:\n", {"tenants is empty"});
}

TEST_F(ConfigFileTest, TheExampleAndTheDocumentationAreRead) {
  const absl::Status example =
      ReadConfigFile(SourcePath("deploy/gpupoold.yaml"), &config_);
  EXPECT_TRUE(example.ok()) << example;
  EXPECT_EQ(SchedulingOf(config_).queues.size(), 2u);
  std::ifstream file(SourcePath("docs/operations.md"));
  std::stringstream page;
  page << file.rdbuf();
  const std::vector<std::string> parts =
      absl::StrSplit(page.str(), "```yaml\n");
  ASSERT_GE(parts.size(), 4u);
  for (size_t i = 1; i < parts.size(); ++i) {
    config_ = Config();
    Taken(parts[i].substr(0, parts[i].find("```")));
  }
}

TEST_F(ConfigFileTest, EmptyFileIsFine) { Taken("# nothing\n"); }

TEST_F(ConfigFileTest, UnknownKeyIsAnErrorWithItsPlaceAndTheNearest) {
  Refused("devices: auto\n\ngrpcport: 1\n",
          {"\"grpcport\" at line 3, column 1", "did you mean \"grpc-port\"?",
           "--help"});
  const absl::Status status = Read("banana: 1\n");
  EXPECT_EQ(status.message().find("did you mean"), std::string::npos);
}

TEST_F(ConfigFileTest, BadValueIsAnErrorWithItsLineAndTheRule) {
  Refused("listen: everywhere\n", {"listen", "everywhere", "line 1, column 9"});
  Refused("devices: cpu:0\n", {"devices", "cpu:0", "line 1", "write cpu:1"});
  Refused("a: [1\n", {"gpupoold.yaml"});
  Refused("grpc-port: 70000\n", {"70000", "0 .. 65535"});
  Refused("grpc-port: -1\n", {"-1", "0 .. 65535"});
  Refused("grpc-port: [1]\n", {"grpc-port is [1]", "one value"});
  Refused("device-memory: 12parsecs\n", {"12parsecs", "GiB"});
  Refused("model-limit: 0\n", {"model-limit", "\"0\"", "1 to 64TiB"});
  Refused("log-level: loud\n", {"loud", "debug"});
  Refused("log-format: xml\n", {"log-format", "xml", "text or json"});
  Refused("devices: {a: b}\n", {"line 1", "a list of values"});
  Refused("- devices\n", {"name: value"});
  Refused("serving-target-delay: 601\n", {"601", "0 .. 600"});
  Refused("tenants: a:weight=0\n", {"tenant 'a'", "weight=0", "line 1"});
  Refused("order: random\n",
          {"random", "fifo, priority, easy, fair", "line 1"});
}

TEST_F(ConfigFileTest, AKeyIsGivenOnce) {
  Refused("grpc-port: 1\ngrpc_port: 2\n",
          {"\"grpc_port\" at line 2, column 1 is given twice"});
  Refused("queues:\n- {name: a, most: 1, most: 2}\n",
          {"\"most\" at line 2", "is given twice"});
}

TEST_F(ConfigFileTest, AFileHasOneDocument) {
  Refused("grpc-port: 1\n---\nhttp-port: 2\n",
          {"a second document begins at line", "one is expected"});
}

TEST_F(ConfigFileTest, BytesThatAreNoTextAreRefused) {
  Refused(std::string("listen: 127.0.0.1\0\n", 19), {"bytes that are no text"});
  Refused(
      "\x7f"
      "ELF\x02\x01\n",
      {"bytes that are no text"});
  Refused("state-dir: a\xff\n", {"bytes that are no text"});
  Taken("state-dir: \"\u00fc\"\r\n");
}

TEST_F(ConfigFileTest, MissingFileIsNamed) {
  const absl::Status status = ReadConfigFile("/nowhere/x.yaml", &config_);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/nowhere/x.yaml"),
                    HasSubstr("No such file or directory")));
}

// Opening it would wait for a writer.
TEST_F(ConfigFileTest, APipeIsNoConfigurationFile) {
  const std::string path = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const absl::Status status = ReadConfigFile(path, &config_);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("pipe"));
}

TEST_F(ConfigFileTest, AFolderIsNoConfigurationFile) {
  const absl::Status status = ReadConfigFile(directory_.path(), &config_);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is it a file?"));
}

}  // namespace
}  // namespace gpupool::server
