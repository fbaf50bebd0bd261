// submit, run, watch, plan: verbs that take a job file or follow a job.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/time/clock.h"
#include "client/cli/models/plan_view.h"
#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kJob = R"(
name: tiny
data: {dataset: letters}
model: {input_shape: [2], layers: [relu]}
)";

class JobFileTest : public CommandTest {
 protected:
  JobFileTest() : file_(WriteFile("tiny.yaml", kJob)) {}

  void Script(std::vector<v1::JobEvent> events, v1::JobState outcome) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.script = std::move(events);
    server_.state.outcome.set_state(outcome);
  }

  void Publish(v1::VersionState state) {
    absl::MutexLock lock(&server_.state.mutex);
    v1::ModelVersion& version = *server_.state.models["letters"].add_versions();
    version.set_model("letters");
    version.set_version(3);
    version.set_job_id(1);
    version.set_state(state);
    version.set_device("cpu:0");
    version.set_error("no room");
  }

  const std::string file_;
};

using SubmitTest = JobFileTest;

TEST_F(SubmitTest, PrintsTheIdAndTheRequestId) {
  EXPECT_EQ(Run({"submit", file_, "--request-id", "r1"}), 0);
  EXPECT_EQ(out(), "1\n");
  EXPECT_THAT(err(), HasSubstr("request id r1"));
  EXPECT_THAT(err(), HasSubstr("gpupool watch 1"));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.submitted.spec().name(), "tiny");
  EXPECT_TRUE(server_.state.submitted.spec().model().layers(0).has_relu());
}

TEST_F(SubmitTest, ReturnsTheSameJobForTheSameRequestId) {
  EXPECT_EQ(Run({"submit", file_, "--request-id", "r1"}), 0);
  EXPECT_EQ(Run({"submit", file_, "--request-id", "r1"}), 0);
  EXPECT_EQ(out(), "1\n");
  EXPECT_EQ(Run({"submit", file_}), 0);
  EXPECT_EQ(out(), "2\n") << "a new random id is a new intent";
}

TEST_F(SubmitTest, ReportsABrokenFileBeforeAnythingIsSent) {
  const std::string file = WriteFile("broken.yaml", "nam: x\n");
  EXPECT_EQ(Run({"submit", file}), 2);
  EXPECT_THAT(err(), HasSubstr(":1:1: unknown field 'nam' in JobSpec; did you "
                               "mean 'name'?"));
  EXPECT_EQ(Run({"submit", "/no/such.yaml"}), 3);
}

TEST_F(SubmitTest, NamesAJobAfterItsFile) {
  const std::string file = WriteFile("nameless.yaml", "priority: 1\n");
  EXPECT_EQ(Run({"submit", file, "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["spec"]["name"],
            "command_test_nameless");
  EXPECT_EQ(Run({"submit", file, "--name", "other", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["spec"]["name"], "other");
}

TEST_F(SubmitTest, SaysHowToUploadAMissingDataset) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["SubmitJob"] = {
        absl::NotFoundError("there is no dataset \"letters\"")};
  }
  EXPECT_EQ(Run({"submit", file_}), 3);
  EXPECT_THAT(err(), HasSubstr("or give the file with --data FILE"));
}

TEST_F(SubmitTest, AMissingJobIsNoMissingDataset) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["SubmitJob"] = {
        absl::NotFoundError("there is no job or array 99999")};
  }
  EXPECT_EQ(Run({"submit", file_}), 3);
  EXPECT_THAT(err(), Not(HasSubstr("--data")));
}

TEST_F(SubmitTest, MapsTheServersRefusals) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["SubmitJob"] = {
        absl::AlreadyExistsError("r1 is another job"),
        absl::ResourceExhaustedError("the queue is full")};
  }
  EXPECT_EQ(Run({"submit", file_}), 6);
  EXPECT_EQ(Run({"submit", file_}), 7);
}

using RunTest = JobFileTest;

TEST_F(RunTest, FollowsToSuccess) {
  Script({StateEvent(1, v1::RUNNING), ProgressEvent(2, 5, 10),
          StateEvent(3, v1::SUCCEEDED)},
         v1::SUCCEEDED);
  EXPECT_EQ(Run({"run", file_}), 0);
  EXPECT_THAT(out(), HasSubstr("running\n"));
  EXPECT_THAT(out(), HasSubstr("job 1 (tiny) succeeded\n"));
  EXPECT_THAT(out(), Not(HasSubstr("\x1b")));
}

TEST_F(RunTest, EndsWithOneWhenTheJobFails) {
  Script({StateEvent(1, v1::FAILED)}, v1::FAILED);
  EXPECT_EQ(Run({"run", file_}), 1);
  EXPECT_THAT(out(), HasSubstr("job 1 (tiny) failed\n"));
}

TEST_F(RunTest, PrintsOnlyTheJobForPrograms) {
  Script({LogEvent(1, "hello"), StateEvent(2, v1::SUCCEEDED)}, v1::SUCCEEDED);
  EXPECT_EQ(Run({"run", file_, "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["state"], "SUCCEEDED");
  EXPECT_THAT(err(), HasSubstr("hello"));
}

TEST_F(RunTest, UploadsTheDataOnce) {
  Script({StateEvent(1, v1::SUCCEEDED)}, v1::SUCCEEDED);
  const std::string data = WriteFile("letters.csv", "1,2,0\n");
  EXPECT_EQ(Run({"run", file_, "--data", data, "--label-column", "0"}), 0);
  EXPECT_THAT(err(), HasSubstr("dataset letters: uploaded, 1,797 rows"));
  EXPECT_EQ(Run({"run", file_, "--data", data, "--label-column", "0"}), 0);
  EXPECT_THAT(err(), HasSubstr("dataset letters: present, 1,797 rows"));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes, "1,2,0\n");
  EXPECT_EQ(server_.state.datasets["letters"].layout().label_column(), 0);
}

TEST_F(RunTest, WaitsForThePublishedVersion) {
  Script({StateEvent(1, v1::SUCCEEDED)}, v1::SUCCEEDED);
  Publish(v1::READY);
  const std::string file =
      WriteFile("publishes.yaml",
                "name: tiny\npublish: {model: letters, on_success: true}\n");
  EXPECT_EQ(Run({"run", file}), 0);
  EXPECT_THAT(err(), HasSubstr("published: letters version 3, ready on cpu:0"));
}

TEST_F(RunTest, FailsWhenTheModelCannotBeServed) {
  Script({StateEvent(1, v1::SUCCEEDED)}, v1::SUCCEEDED);
  Publish(v1::LOAD_FAILED);
  const std::string file =
      WriteFile("unloadable.yaml",
                "name: tiny\npublish: {model: letters, on_success: true}\n");
  EXPECT_EQ(Run({"run", file}), 6);
  EXPECT_THAT(err(), HasSubstr("cannot be served: no room"));
}

TEST_F(RunTest, DoesNotWaitForAModelThatIsNotLoaded) {
  Script({StateEvent(1, v1::SUCCEEDED)}, v1::SUCCEEDED);
  Publish(v1::UNLOADED);
  const std::string file =
      WriteFile("unloaded.yaml",
                "name: tiny\npublish: {model: letters, on_success: true}\n");
  EXPECT_EQ(Run({"run", file}), 6);
  EXPECT_THAT(err(), HasSubstr("letters version 3 is not loaded; see "
                               "`gpupool logs "));
}

TEST_F(RunTest, DetachesWhenInterruptedAndSaysHowToComeBack) {
  Script({StateEvent(1, v1::RUNNING)}, v1::RUNNING);
  EXPECT_EQ(RunAndInterrupt({"run", file_}), 130);
  EXPECT_THAT(
      err(),
      HasSubstr("detached; job 1 continues. Follow it: gpupool watch 1"));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.jobs[1].state(), v1::RUNNING);
}

using WatchCommandTest = JobFileTest;

TEST_F(WatchCommandTest, SeesTheWholeHistoryThroughABreak) {
  AddJob(1, "digits", v1::SUCCEEDED);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1] = {LogEvent(1, "one"), LogEvent(2, "two"),
                               StateEvent(3, v1::SUCCEEDED)};
    server_.state.break_after = 1;
  }
  EXPECT_EQ(Run({"watch", "digits"}), 0);
  EXPECT_THAT(out(), StartsWith("one\ntwo\nsucceeded\n"));
  EXPECT_THAT(err(), HasSubstr("connection lost, retrying"));
}

TEST_F(WatchCommandTest, PrintsOneJsonObjectALine) {
  AddJob(1, "digits", v1::FAILED);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1] = {ProgressEvent(1, 1, 2),
                               StateEvent(2, v1::FAILED)};
  }
  EXPECT_EQ(Run({"watch", "1", "-o", "json"}), 1);
  std::istringstream lines(out());
  std::string line;
  std::vector<std::string> sequences;
  while (std::getline(lines, line)) {
    sequences.push_back(nlohmann::json::parse(line)["sequence"]);
  }
  EXPECT_THAT(sequences, ::testing::ElementsAre("1", "2"));
}

TEST_F(WatchCommandTest, DrawsCurvesAndWritesAPicture) {
  AddJob(1, "digits", v1::SUCCEEDED);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1] = {ProgressEvent(1, 1, 2), ProgressEvent(2, 2, 2),
                               StateEvent(3, v1::SUCCEEDED)};
  }
  const std::string file = WriteFile("curves.svg", "");
  EXPECT_EQ(Run({"watch", "1", "-O", file}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("training")));
  EXPECT_THAT(err(), HasSubstr("the curves of job 1"));
  std::ostringstream svg;
  svg << std::ifstream(file).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("steps of job 1 (digits)"));
  EXPECT_EQ(Run({"watch", "1", "--plot"}), 0);
  EXPECT_THAT(out(), HasSubstr("loss  * training 0.25\n"));
  EXPECT_EQ(Run({"watch", "1", "-O", "/nowhere/x.svg"}), 3);
  EXPECT_EQ(Run({"watch", "1", "--plot", "-o", "json"}), 2);
  EXPECT_THAT(err(), HasSubstr("leave one of them out"));
}

using PlanTest = JobFileTest;

TEST_F(PlanTest, ShowsBytesLayersAndWhereItFits) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::PlanJobResponse& plan = server_.state.plan;
    plan.set_total_steps(900);
    plan.mutable_plan()->set_parameters(12345);
    plan.mutable_plan()->mutable_training()->set_peak(3 << 20);
    plan.mutable_plan()->set_host_data_bytes(5 << 20);
    plan.mutable_plan()->add_warnings("it is slow");
    plan.mutable_plan()->add_warnings("note: it is small");
    v1::LayerPlan& layer = *plan.mutable_plan()->add_layers();
    layer.set_name("dense_0");
    layer.add_output_shape(10);
    v1::DeviceFit& fit = *plan.add_devices();
    fit.set_device("cpu:0");
    fit.set_fits_ever(true);
  }
  EXPECT_EQ(Run({"plan", file_}), 0);
  EXPECT_THAT(out(), HasSubstr("tiny: 12,345 parameters, 900 steps"));
  EXPECT_THAT(err(), HasSubstr("warning: it is slow\nnote: it is small\n"));
  EXPECT_THAT(out(), HasSubstr("peak\t3.0 MiB\t0 B\n"
                               "host memory for the dataset: 5.0 MiB\n"));
  EXPECT_THAT(out(), HasSubstr("dense_0\t-\t10\t0\t0\n"));
  EXPECT_THAT(out(), HasSubstr("cpu:0\t0 B\t0 B\tlater\n"));
  EXPECT_EQ(Run({"plan", file_, "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["plan"]["training"]["peak"],
            "3145728");
}

TEST_F(PlanTest, PrintsTheServersAdvice) {
  EXPECT_EQ(Run({"plan", file_}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("advice")));
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.plan.add_advice("write batch_size: 64");
    server_.state.plan.add_advice("write units: 16");
  }
  EXPECT_EQ(Run({"plan", file_}), 0);
  EXPECT_THAT(out(), HasSubstr("\nadvice\n- write batch_size: 64\n"
                               "- write units: 16\n"));
  EXPECT_EQ(Run({"plan", file_, "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["advice"][1], "write units: 16");
}

TEST_F(PlanTest, SaysWhatHasToHappenBeforeItFits) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::DeviceFit& fit = *server_.state.plan.add_devices();
    fit.set_device("cpu:0");
    fit.set_fits_ever(true);
    server_.state.devices.add_devices()->set_name("cpu:0");
  }
  const auto expect = [&](const v1::Device& device, const std::string& text) {
    {
      absl::MutexLock lock(&server_.state.mutex);
      *server_.state.devices.mutable_devices(0) = device;
    }
    EXPECT_EQ(Run({"plan", file_}), 0);
    EXPECT_THAT(out(), HasSubstr("cpu:0\t0 B\t0 B\t" + text + "\n"));
  };
  v1::Device device;
  device.set_name("cpu:0");
  device.set_state(v1::DEVICE_READY);
  device.set_memory_fraction(0.5);
  expect(device, "with a larger memory fraction");
  device.add_reservations()->set_active(false);
  expect(device, "with a larger memory fraction");
  device.add_reservations()->set_active(true);
  expect(device, "when its reservation ends");
  device.add_versions("digits/1");
  expect(device, "when models are unloaded");
  device.add_job_ids(7);
  expect(device, "when others end");
  device.mutable_cools_until()->set_seconds(1);
  expect(device, "when the device has cooled down");
  device.mutable_drain();
  expect(device, "when the device is resumed");
  device.set_state(v1::DEVICE_LOST);
  expect(device, "when its worker is back");
}

TEST_F(PlanTest, ADrainedDeviceDoesNotFitNow) {
  absl::MutexLock lock(&server_.state.mutex);
  v1::DeviceFit& fit = *server_.state.plan.add_devices();
  fit.set_device("cpu:0");
  fit.set_fits_ever(true);
  fit.set_fits_now(true);
  v1::Device device;
  EXPECT_EQ(FitText(fit, &device), "now");
  device.mutable_drain();
  EXPECT_EQ(FitText(fit, &device), "when the device is resumed");
}

}  // namespace
}  // namespace gpupool::client
