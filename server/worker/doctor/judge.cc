#include "server/worker/doctor/judge.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::server {

std::string BytesText(uint64_t bytes) {
  constexpr double kStep = 1024;
  double number = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (number < kStep) break;
    number /= kStep;
    unit = larger;
  }
  return number >= 100 || number == static_cast<int>(number)
             ? absl::StrFormat("%.0f %s", number, unit)
             : absl::StrFormat("%.1f %s", number, unit);
}

std::string CudaVersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string CapabilityText(int capability) {
  return absl::StrCat(capability / 10, ".", capability % 10);
}

void Judge(const DoctorFacts& facts, Findings& findings) {
  JudgeContainer(facts, findings);
  if (facts.gpus_asked) {
    JudgeDriver(facts, findings);
    JudgeGpus(facts, findings);
    JudgePeers(facts, findings);
    JudgeLibraries(facts, findings);
    JudgeModule(facts, findings);
  }
  JudgeLimits(facts, findings);
  JudgePlaces(facts, findings);
}

}  // namespace gpupool::server
