#include <gtest/gtest.h>

#include "server/worker/doctor/judge.h"
#include "tests/server/worker/doctor/judge_cases.h"

namespace gpupool::server {

std::vector<JudgeCase> PlaceCases() {
  const auto on = [](const char* file_system) {
    return [=](DoctorFacts& facts) { facts.state.file_system = file_system; };
  };
  return {
      {"state.ok", [](DoctorFacts&) {},
       "/var/lib/gpupool is on ext4 with 100 GiB free"},
      {"state.held", [](DoctorFacts& facts) { facts.state.held = true; }},
      {"state.no_folder",
       [](DoctorFacts& facts) { facts.state.folder_error = "it is a file"; },
       "/var/lib/gpupool cannot be one: it is a file", "--state-dir"},
      {"state.read_only",
       [](DoctorFacts& facts) {
         facts.state.read_only = true;
         facts.state.write_error = "Read-only file system";
       },
       "", "-v gpupool:/var/lib/gpupool"},
      {"state.not_writable",
       [](DoctorFacts& facts) {
         facts.state.write_error = "Permission denied";
       },
       "Permission denied"},
      {"state.no_fsync",
       [](DoctorFacts& facts) { facts.state.sync_error = "Invalid argument"; },
       "Invalid argument"},
      {"state.in_memory", on("tmpfs"), "tmpfs"},
      {"state.overlay", on("overlay")},
      {"state.network", on("nfs"), "nfs"},
      {"state.disk_low",
       [](DoctorFacts& facts) { facts.state.free_bytes = 1 << 20; },
       "1 MiB free"},
      {"port.held", [](DoctorFacts& facts) { facts.held_ports = {8000}; },
       "port 8000", "another `--http-port`"},
  };
}

namespace {

TEST(JudgePlacesTest, AServerThatRunsHoldsItsOwnPorts) {
  DoctorFacts facts = HealthyMachine();
  facts.held_ports = facts.ports;
  facts.state.held = true;
  Findings findings;
  JudgePlaces(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kOk);
}

TEST(JudgePlacesTest, WhatIsNotAskedForIsNotJudged) {
  DoctorFacts facts = HealthyMachine();
  facts.state = {};
  facts.ports.clear();
  Findings findings;
  JudgePlaces(facts, findings);
  EXPECT_TRUE(findings.all().empty());
}

}  // namespace
}  // namespace gpupool::server
