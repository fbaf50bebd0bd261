// For each finding a machine that has it: a healthy one with one thing changed.
// The file of each judge lists those of its area, and judge_test.cc runs all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/worker/doctor/facts.h"

namespace gpupool::server {

struct JudgeCase {
  std::string id;  // of the finding that this machine has
  std::function<void(DoctorFacts&)> change;
  // A part of its text and of its remedy; may be empty.
  std::string text = "";
  std::string remedy = "";
  // Whether only this one beside those that are ok is found.
  bool alone = true;
};

// Two H100 with everything that they need.
DoctorFacts HealthyMachine();
// No GPU, no driver, no module.
DoctorFacts MachineWithoutGpu();

std::vector<JudgeCase> DriverCases();
std::vector<JudgeCase> GpuCases();
std::vector<JudgeCase> LibraryCases();
std::vector<JudgeCase> LimitCases();
std::vector<JudgeCase> PlaceCases();

}  // namespace gpupool::server
