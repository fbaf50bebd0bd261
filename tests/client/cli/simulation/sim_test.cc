// gpupool sim: its options, results and errors.
#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

class SimTest : public CommandTest {
 protected:
  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "sim");
    arguments.insert(arguments.end(), {"-o", "json"});
    EXPECT_EQ(Run(arguments), 0) << err();
    return nlohmann::json::parse(out());
  }

  // Returns two long jobs for one device, then a short one.
  std::string Trace() {
    return WriteFile("trace.csv",
                     "job_id,submit_s,gpus,duration_s\n"
                     "a,0,1,10000\nb,0,1,10000\nc,5000,1,100\n");
  }
};

TEST_F(SimTest, ATraceHasTheFiguresThatFollowFromIt) {
  const auto json = Json({"--trace", Trace(), "--devices-per-node", "2"});
  EXPECT_EQ(json["policy"], "fifo");
  EXPECT_EQ(json["jobs"], 3);
  EXPECT_DOUBLE_EQ(json["mean_jct_s"], (10000 + 10000 + 5100) / 3.0);
  EXPECT_DOUBLE_EQ(json["p99_jct_s"], 10000);
  EXPECT_DOUBLE_EQ(json["makespan_s"], 10100);
  EXPECT_EQ(json["preemptions"], 0);
}

TEST_F(SimTest, SeveralPoliciesAreComparedAndTheRestartIsCharged) {
  const auto json =
      Json({"--trace", Trace(), "--devices-per-node", "2", "--policy", "fifo",
            "--policy", "las,srs", "--restart-cost", "1m"});
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[2]["policy"], "srs");
  EXPECT_EQ(json[2]["preemptions"], 1);
  EXPECT_DOUBLE_EQ(json[2]["mean_jct_s"], (10000 + 10160 + 100) / 3.0);
  EXPECT_EQ(json[1]["mean_jct_s"], json[2]["mean_jct_s"]);
}

TEST_F(SimTest, MinimumRunAndHysteresisKeepJobsWhereTheyAre) {
  for (const std::vector<std::string>& calm :
       {std::vector<std::string>{"--min-run", "3h"},
        std::vector<std::string>{"--hysteresis", "1000"}}) {
    std::vector<std::string> arguments = {
        "--trace", Trace(), "--devices-per-node", "2", "--policy", "las"};
    arguments.insert(arguments.end(), calm.begin(), calm.end());
    EXPECT_EQ(Json(arguments)["preemptions"], 0) << calm[0];
  }
}

TEST_F(SimTest, AWrongMinimumRunIsToldWithWhatIsAllowed) {
  for (const std::string word : {"-1s", "soon"}) {
    EXPECT_EQ(Run({"sim", "--min-run", word}), 2);
    EXPECT_THAT(err(), HasSubstr("--min-run: '" + word +
                                 "' is not a duration from 0 up; write for "
                                 "example 0, 30s"));
  }
}

TEST_F(SimTest, AGeneratedTraceIsTheSameForTheSameSeed) {
  const std::vector<std::string> some = {"--jobs",   "200", "--load",  "1.1",
                                         "--seed",   "4",   "--nodes", "2",
                                         "--policy", "las"};
  const auto first = Json(some);
  EXPECT_EQ(first["jobs"], 200);
  EXPECT_EQ(Json(some)["mean_jct_s"], first["mean_jct_s"]);
  EXPECT_NE(Json({"--jobs", "200", "--seed", "5"})["mean_jct_s"],
            first["mean_jct_s"]);
}

TEST_F(SimTest, TablesHaveALineForEachPolicy) {
  EXPECT_EQ(Run({"sim", "--jobs", "50", "--policy", "fifo,srs"}), 0);
  EXPECT_THAT(out(), ::testing::StartsWith("POLICY\tJOBS\tMEAN JCT\t"));
  EXPECT_THAT(out(), HasSubstr("\nfifo\t50\t"));
  EXPECT_THAT(out(), HasSubstr("\nsrs\t50\t"));
  EXPECT_EQ(err(), "") << "no progress where nobody looks";
}

TEST_F(SimTest, ThePlotIsWritten) {
  const std::string path = WriteFile("plot.svg", "");
  EXPECT_EQ(Run({"sim", "--jobs", "50", "--plot", path}), 0);
  std::ifstream in(path);
  const std::string svg{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(svg, HasSubstr("Devices at work"));
  EXPECT_EQ(Run({"sim", "--jobs", "5", "--plot", "/no/such/folder/x.svg"}), 3);
  EXPECT_THAT(err(), HasSubstr("cannot write the plot /no/such/folder/x.svg"));
}

TEST_F(SimTest, ErrorsNameFileLineValueAndLimit) {
  const std::string bad =
      WriteFile("bad.csv", "submit_s,gpus,duration_s\n0,1,5\n1,none,5\n");
  EXPECT_EQ(Run({"sim", "--trace", bad}), 2);
  EXPECT_THAT(err(), HasSubstr(bad));
  EXPECT_THAT(err(), HasSubstr("line 3 of the trace: gpus is 'none'"));
  const std::string wide =
      WriteFile("wide.csv", "job_id,submit_s,gpus,duration_s\nx,0,9,5\n");
  EXPECT_EQ(Run({"sim", "--trace", wide}), 2);
  EXPECT_THAT(err(), HasSubstr("job x needs 9 devices"));
  EXPECT_EQ(Run({"sim", "--trace", "/no/such.csv"}), 3);
}

TEST_F(SimTest, ValuesThatMakeNoSenseAreUsageErrors) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"sim", "--policy", "alphabetical"},
           {"sim", "--nodes", "0"},
           {"sim", "--hysteresis", "0.5"},
           {"sim", "--restart-cost", "soon"},
           {"sim", "--load", "0"},
           {"sim", "--trace", "x.csv", "--seed", "3"},
           {"sim", "--nodes", "65536", "--devices-per-node", "2"}}) {
    EXPECT_EQ(Run(arguments), 2) << arguments[1];
    EXPECT_NE(err(), "");
  }
}

TEST_F(SimTest, AnInterruptEndsIt) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(Run({"sim", "--jobs", "2000"}, source.get_token()), 130);
  EXPECT_EQ(out(), "");
}

}  // namespace
}  // namespace gpupool::client
