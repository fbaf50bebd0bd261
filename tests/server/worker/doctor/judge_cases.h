// A machine for each finding: a healthy machine with one change. The file of
// each judge lists the machines of its area, and judge_test.cc tests all of
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/worker/doctor/facts.h"

namespace gpupool::server {

struct JudgeCase {
  std::string id;  // the finding that this machine has
  std::function<void(DoctorFacts&)> change;
  // Part of the finding's text, and of its remedy; may be empty.
  std::string text = "";
  std::string remedy = "";
  // Whether this is the only finding, except for those that are ok.
  bool alone = true;
};

// Returns a machine with two H100 and everything that they need.
DoctorFacts HealthyMachine();
// Returns a machine without GPU, driver and module.
DoctorFacts MachineWithoutGpu();

std::vector<JudgeCase> DriverCases();
std::vector<JudgeCase> GpuCases();
std::vector<JudgeCase> LibraryCases();
std::vector<JudgeCase> LimitCases();
std::vector<JudgeCase> PlaceCases();

}  // namespace gpupool::server
