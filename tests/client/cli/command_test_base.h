// Runs commands of `gpupool` in the test's process against a fake server.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cli/app.h"
#include "tests/client/testing/fake_server.h"
#include "tests/wait_until.h"

namespace gpupool::client {

class CommandTest : public ::testing::Test {
 protected:
  // Runs `gpupool ARGUMENTS --address ...` as in a pipe and returns the exit
  // code.
  int Run(std::vector<std::string> arguments, std::stop_token stop = {}) {
    arguments.push_back("--address");
    arguments.push_back(server_.address());
    out_.str("");
    err_.str("");
    return RunCommandLine(arguments,
                          Console{{.stream = &out_}, {.stream = &err_}}, stop);
  }

  // Runs the command as Run does, and interrupts it once it watches a job.
  int RunAndInterrupt(std::vector<std::string> arguments) {
    std::stop_source stop;
    std::jthread interrupt([&] {
      EXPECT_TRUE(WaitUntil([&] {
        absl::MutexLock lock(&server_.state.mutex);
        return server_.state.calls["WatchJob"] > 0;
      }));
      stop.request_stop();
    });
    return Run(std::move(arguments), stop.get_token());
  }

  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  void AddJob(uint64_t id, const std::string& name, v1::JobState state) {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Job& job = server_.state.jobs[id];
    job.set_id(id);
    job.mutable_spec()->set_name(name);
    job.set_state(state);
  }

  std::string WriteFile(const std::string& name, const std::string& text) {
    // Tests run in parallel, so each has its own file.
    const std::string folder =
        ::testing::TempDir() + "/client_" + std::to_string(::getpid());
    ::mkdir(folder.c_str(), 0700);
    const std::string path = folder + "/command_test_" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  FakeServer server_;

 private:
  std::ostringstream out_;
  std::ostringstream err_;
};

}  // namespace gpupool::client
