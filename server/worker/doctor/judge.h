// Turns facts into findings: pure functions, one for each area.
#pragma once

#include <cstdint>
#include <string>

#include "server/worker/doctor/facts.h"
#include "server/worker/doctor/findings.h"

namespace gpupool::server {

// The management library's code for a driver of another version.
inline constexpr int kNvmlMismatch = 18;

// Runs all functions below, in the order in which findings are read.
void Judge(const DoctorFacts& facts, Findings& findings);

void JudgeDriver(const DoctorFacts& facts, Findings& findings);
void JudgeContainer(const DoctorFacts& facts, Findings& findings);
void JudgeGpus(const DoctorFacts& facts, Findings& findings);
void JudgePeers(const DoctorFacts& facts, Findings& findings);
void JudgeLibraries(const DoctorFacts& facts, Findings& findings);
void JudgeModule(const DoctorFacts& facts, Findings& findings);
void JudgeLimits(const DoctorFacts& facts, Findings& findings);
void JudgePlaces(const DoctorFacts& facts, Findings& findings);

// Returns "79.6 GiB" or "512 MiB".
std::string BytesText(uint64_t bytes);
// Returns "13.0" for 13000.
std::string CudaVersionText(int version);
// Returns "9.0" for 90.
std::string CapabilityText(int capability);

}  // namespace gpupool::server
