// Arrays of jobs: how the verbs name, show and follow them.
#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ArrayCommandsTest : public CommandTest {
 protected:
  // Adds array 7 with tasks 8 and 9.
  void AddArray() {
    AddJob(8, "tune-0", v1::RUNNING);
    AddJob(9, "tune-1", v1::QUEUED);
    absl::MutexLock lock(&server_.state.mutex);
    for (uint64_t id : {8, 9}) {
      server_.state.jobs[id].set_array_id(7);
      server_.state.jobs[id].set_array_index(static_cast<uint32_t>(id - 8));
    }
    server_.state.arrays[7] = ArrayOf({{v1::RUNNING, 1}, {v1::QUEUED, 1}});
  }
  static v1::JobArray ArrayOf(
      const std::vector<std::pair<v1::JobState, uint32_t>>& counts) {
    v1::JobArray array;
    array.set_id(7);
    array.mutable_spec()->set_name("tune-${index}");
    array.mutable_spec()->mutable_array()->set_indices("0-1");
    array.mutable_spec()->mutable_array()->set_max_at_once(1);
    array.set_tasks(2);
    for (const auto& [state, tasks] : counts) {
      v1::JobArray::Count& count = *array.add_counts();
      count.set_state(state);
      count.set_tasks(tasks);
    }
    return array;
  }
  void Script(std::vector<v1::JobArray> script) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.array_script = std::move(script);
  }
  std::string JobFile() {
    return WriteFile(
        "array.yaml",
        "name: tune-${index}\n"
        "array: {indices: 0-1, max_at_once: 1}\n"
        "model: {input_shape: [4], layers: [{dense: {units: 2}}]}\n"
        "data: {dataset: digits}\n"
        "training: {sgd: {learning_rate: 0.1}, batch_size: 8}\n");
  }
};

TEST_F(ArrayCommandsTest, SubmitPrintsTheId) {
  EXPECT_EQ(Run({"submit", JobFile()}), 0);
  EXPECT_EQ(out(), "7\n");
  EXPECT_THAT(err(), HasSubstr("array 7 (tune-${index}) is taken: 2 tasks "
                               "(0-1), at most 1 at once"));
}

TEST_F(ArrayCommandsTest, OneDatasetCannotBeThatOfEachTask) {
  const std::string file = WriteFile(
      "each.yaml",
      "name: a\narray: {indices: 0-1}\ndata: {dataset: \"d${index}\"}\n");
  const std::string data = WriteFile("rows.csv", "1,2\n");
  EXPECT_EQ(Run({"submit", file, "--data", data}), 2);
  EXPECT_THAT(err(), HasSubstr("names a different one for each task"));
}

TEST_F(ArrayCommandsTest, GetShowsItsCountsAndATaskItsPlace) {
  AddArray();
  EXPECT_EQ(Run({"get", "7"}), 0);
  EXPECT_THAT(out(), HasSubstr("array 7 (tune-${index}): 2 tasks (0-1), at "
                               "most 1 at once\n"));
  EXPECT_THAT(out(), HasSubstr("state:       1 running, 1 queued\n"));
  EXPECT_EQ(Run({"get", "8"}), 0);
  EXPECT_THAT(out(), HasSubstr("index 0 of array 7"));
  EXPECT_EQ(Run({"get", "7", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["tasks"], 2);
}

TEST_F(ArrayCommandsTest, JobsShowsALineForAnArray) {
  AddArray();
  EXPECT_EQ(Run({"jobs", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("7\ttune-${index}\t1 running, 1 queued\t"));
  {
    absl::MutexLock lock(&server_.state.mutex);
    EXPECT_TRUE(server_.state.listed.without_tasks());
  }
  EXPECT_EQ(Run({"jobs", "--no-headers", "--array", "7"}), 0);
  EXPECT_THAT(out(), HasSubstr("9 (7_1)\ttune-1\tqueued\t"));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.listed.array_id(), 7u);
  EXPECT_FALSE(server_.state.listed.without_tasks());
}

TEST_F(ArrayCommandsTest, ATaskIsNamedByArrayAndIndex) {
  AddArray();
  EXPECT_EQ(Run({"get", "7_1"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.listed.array_id(), 7u);
  EXPECT_EQ(server_.state.listed.array_index(), 1u);
}

TEST_F(ArrayCommandsTest, VerbsOfOneJobAskForATask) {
  AddArray();
  EXPECT_EQ(Run({"logs", "7"}), 2);
  EXPECT_THAT(err(), HasSubstr("7 is an array of jobs; name one of its tasks, "
                               "as in 7_0"));
}

TEST_F(ArrayCommandsTest, CancelAndHoldAreOfAllTasks) {
  AddArray();
  EXPECT_EQ(Run({"cancel", "7"}), 0);
  EXPECT_EQ(out(), "array 7 (tune-${index}): 1 running, 1 queued\n");
  EXPECT_EQ(Run({"hold", "7"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.calls["CancelArray"], 1);
  EXPECT_EQ(server_.state.calls["CancelJob"], 0);
  EXPECT_EQ(server_.state.calls["HoldArray"], 1);
}

TEST_F(ArrayCommandsTest, WaitEndsWithTheLastTaskThroughLostConnections) {
  AddArray();
  Script({ArrayOf({{v1::RUNNING, 2}}), ArrayOf({{v1::SUCCEEDED, 2}})});
  EXPECT_EQ(Run({"wait", "7"}), 0);
  Script({ArrayOf({{v1::SUCCEEDED, 1}, {v1::FAILED, 1}})});
  EXPECT_EQ(Run({"wait", "7"}), 1);
}

TEST_F(ArrayCommandsTest, AnIdOfNothingIsNotFound) {
  EXPECT_EQ(Run({"get", "77"}), 3);
  EXPECT_THAT(err(), Not(HasSubstr("array")));
}

}  // namespace
}  // namespace gpupool::client
