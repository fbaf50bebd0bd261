// compare: the verb against a fake server.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kComparedJob = R"(
name: tiny
data: {dataset: letters}
model: {input_shape: [2], layers: [relu]}
training: {loss: cross_entropy, optimizer: adam, batch_size: 312, epochs: 9}
publish: {model: letters, on_success: true}
)";

class CompareTest : public CommandTest {
 protected:
  CompareTest() : file_(WriteFile("compare.yaml", kComparedJob)) {
    absl::MutexLock lock(&server_.state.mutex);
    for (const char* name : {"cpu:0", "cpu:1"}) {
      v1::Device& device = *server_.state.devices.add_devices();
      device.set_name(name);
      device.set_kind("cpu");
    }
    // 312 rows at 31,200 a second: 10 ms.
    server_.state.script = {StateEvent(1, v1::RUNNING), ProgressEvent(2, 1, 2),
                            ProgressEvent(3, 2, 2),
                            StateEvent(4, v1::SUCCEEDED)};
    v1::Job& outcome = server_.state.outcome;
    outcome.set_state(v1::SUCCEEDED);
    outcome.set_device("cpu:1");
    outcome.add_devices("cpu:1");
    outcome.mutable_progress()->set_step(2);
    outcome.mutable_progress()->set_loss(0.25);
  }

  void EndAs(v1::JobState state) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.script.back() = StateEvent(4, state);
    server_.state.outcome.set_state(state);
  }

  void Refuse(std::vector<absl::Status> answers) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["SubmitJob"] = std::move(answers);
  }

  // Returns the specs of all jobs that were submitted.
  std::vector<v1::JobSpec> Submitted() {
    absl::MutexLock lock(&server_.state.mutex);
    std::vector<v1::JobSpec> specs;
    for (const auto& [id, job] : server_.state.jobs) {
      specs.push_back(job.spec());
    }
    return specs;
  }

  const std::string file_;
};

TEST_F(CompareTest, TrainsEachPrecisionWhereTheFirstOneRan) {
  EXPECT_EQ(Run({"compare", file_, "--precision", "fp32,bf16", "--steps", "2",
                 "--no-headers"}),
            0);
  EXPECT_EQ(out(),
            "float32\tsucceeded\t10.000\t31.2k\t1.00x\t-\t-\t0.25\t-\t-\t-\t-\n"
            "bfloat16\tsucceeded\t10.000\t31.2k\t1.00x\t-\t-\t0.25\t+0\t+0%\t-"
            "\t-\n");
  EXPECT_THAT(err(), HasSubstr("float32: job 1 (tiny-float32)"));
  EXPECT_THAT(err(), HasSubstr("tiny on cpu:1, 2 steps each; speed and "
                               "differences are those to float32\n"));
  const std::vector<v1::JobSpec> jobs = Submitted();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name(), "tiny-float32");
  EXPECT_EQ(jobs[0].device(), "");
  EXPECT_EQ(jobs[1].name(), "tiny-bfloat16");
  EXPECT_EQ(jobs[1].device(), "cpu:1");
  EXPECT_EQ(jobs[1].training().precision(), v1::BF16);
  for (const v1::JobSpec& job : jobs) {
    EXPECT_EQ(job.training().steps(), 2u);
    EXPECT_FALSE(job.publish().on_success());
  }
}

TEST_F(CompareTest, SendsTheOptionsOfTheJob) {
  const std::string data = WriteFile("compare.csv", "1,2,0\n");
  EXPECT_EQ(Run({"compare", file_, "--precision", "float32", "--name", "other",
                 "--queue", "fast", "--device", "cpu:0", "--data", data}),
            0);
  EXPECT_THAT(err(), HasSubstr("dataset letters: uploaded"));
  const std::vector<v1::JobSpec> jobs = Submitted();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].name(), "other-float32");
  EXPECT_EQ(jobs[0].queue(), "fast");
  EXPECT_EQ(jobs[0].device(), "cpu:0");
  EXPECT_EQ(jobs[0].training().steps(), 100u);
}

TEST_F(CompareTest, APrecisionThatTheDeviceLacksIsARow) {
  EXPECT_EQ(Run({"compare", file_, "-o", "json"}), 0);
  const auto rows = nlohmann::json::parse(out());
  ASSERT_EQ(rows.size(), 4u) << "by default all four are compared";
  EXPECT_EQ(rows[1]["precision"], "tf32");
  EXPECT_EQ(rows[1]["state"], "NOT_RUN");
  // The first run has chosen the device.
  EXPECT_THAT(rows[1]["reason"].get<std::string>(),
              StartsWith("cpu:1 has no TF32"));
  EXPECT_EQ(rows[3]["state"], "SUCCEEDED");
  EXPECT_EQ(rows[3]["skipped_steps"], 0);
  EXPECT_EQ(Submitted().size(), 3u);
}

TEST_F(CompareTest, APrecisionThatTheServerRefusesIsARow) {
  Refuse({absl::OkStatus(), absl::InvalidArgumentError("float64 weights")});
  EXPECT_EQ(Run({"compare", file_, "--precision", "float32,bf16,half"}), 0);
  EXPECT_THAT(out(), HasSubstr("bfloat16\tnot run\t"));
  EXPECT_THAT(out(), HasSubstr("\tfloat64 weights\nfloat16\tsucceeded\t"));
  EXPECT_THAT(err(), HasSubstr("bfloat16: float64 weights\n"));
}

TEST_F(CompareTest, FailsOnlyIfNoPrecisionTrains) {
  Refuse({absl::InvalidArgumentError("batch_size is 0"),
          absl::InvalidArgumentError("batch_size is 0")});
  EXPECT_EQ(Run({"compare", file_, "--precision", "float32,bf16"}), 2);
  EXPECT_THAT(out(), HasSubstr("bfloat16\tnot run\t"));
  EXPECT_THAT(err(), HasSubstr("no precision could be trained; float32: "
                               "batch_size is 0\n"));
  EXPECT_EQ(Run({"compare", file_, "--precision", "tf32"}), 2);
  EXPECT_THAT(err(), HasSubstr("cpu:0 has no TF32"));
  EndAs(v1::FAILED);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.outcome.mutable_error()->set_message("the loss is nan");
    server_.state.outcome.mutable_error()->set_hint("lower the rate");
  }
  EXPECT_EQ(Run({"compare", file_, "--precision", "float32"}), 1);
  EXPECT_THAT(out(), HasSubstr("\tthe loss is nan\n"));
  EXPECT_THAT(err(), HasSubstr("float32: the loss is nan\n"
                               "  hint: lower the rate\n"));
}

TEST_F(CompareTest, AnErrorOfAllJobsEndsTheCommand) {
  Refuse({absl::NotFoundError("there is no dataset \"letters\"")});
  EXPECT_EQ(Run({"compare", file_}), 3);
  EXPECT_THAT(err(), HasSubstr("or give the file with --data FILE"));
  EXPECT_THAT(out(), IsEmpty());
  EXPECT_THAT(Submitted(), IsEmpty());
}

TEST_F(CompareTest, RowsBeforeAnErrorArePrinted) {
  Refuse({absl::OkStatus(), absl::ResourceExhaustedError("the queue is full")});
  EXPECT_EQ(Run({"compare", file_, "--precision", "float32,bf16,fp16"}), 7);
  EXPECT_THAT(out(), HasSubstr("float32\tsucceeded\t"));
  EXPECT_THAT(out(), Not(HasSubstr("float16\t")));
  EXPECT_THAT(err(), HasSubstr("the queue is full"));
}

TEST_F(CompareTest, CtrlCCancelsTheRunningJob) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.script = {StateEvent(1, v1::RUNNING)};
    server_.state.outcome.set_state(v1::RUNNING);
  }
  EXPECT_EQ(RunAndInterrupt({"compare", file_}), 130);
  EXPECT_THAT(err(), HasSubstr("job 1 (tiny-float32) is cancelled\n"));
  EXPECT_THAT(err(), Not(HasSubstr("detached")));
  EXPECT_THAT(out(), IsEmpty());
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.jobs.size(), 1u);
  EXPECT_EQ(server_.state.jobs[1].state(), v1::CANCELLED);
}

TEST_F(CompareTest, WritesOnePictureOfAllLosses) {
  const std::string picture = WriteFile("losses.svg", "");
  EXPECT_EQ(Run({"compare", file_, "--precision", "float32,tf32,bf16", "-O",
                 picture}),
            0);
  EXPECT_THAT(err(), HasSubstr("losses.svg: the losses of tiny on cpu:1\n"));
  std::ostringstream svg;
  svg << std::ifstream(picture).rdbuf();
  for (const char* text :
       {">float32<", ">bfloat16<", "steps of tiny on cpu:1"}) {
    EXPECT_THAT(svg.str(), HasSubstr(text));
  }
  EXPECT_THAT(svg.str(), Not(HasSubstr("tf32")));
  EXPECT_EQ(Run({"compare", file_, "--precision", "fp32", "-O", "/no/x.svg"}),
            3);
  EXPECT_THAT(out(), HasSubstr("float32\tsucceeded\t"));
}

TEST_F(CompareTest, RefusesWhatItCannotCompare) {
  EXPECT_EQ(Run({"compare", file_, "--precision", "fp61"}), 2);
  EXPECT_THAT(err(), HasSubstr("--precision: 'fp61' is not one of"));
  EXPECT_EQ(Run({"compare", file_, "--precision", "fp32,bf16,highest"}), 2);
  EXPECT_THAT(err(), HasSubstr("float32 twice (as 'highest')"));
  EXPECT_EQ(Run({"compare", file_, "--steps", "0"}), 2);
  const std::string array =
      WriteFile("compare_array.yaml", "name: a\narray: {indices: 0-9}\n");
  EXPECT_EQ(Run({"compare", array}), 2);
  EXPECT_THAT(err(), HasSubstr("an array of jobs (0-9)"));
  EXPECT_EQ(Run({"compare", "/no/such.yaml"}), 3);
  EXPECT_THAT(Submitted(), IsEmpty());
}

}  // namespace
}  // namespace gpupool::client
