#include "server/worker/injected_fault.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/backends/cuda/driver/fault_class.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

// cudaErrorIllegalAddress of driver_types.h.
constexpr int kIllegalAddress = 700;
constexpr int kEccUncorrectable = 214;

std::string PathFromEnvironment() {
  const char* const path = std::getenv("GPUPOOL_INJECT_FAULT_FILE");
  return path == nullptr ? "" : path;
}

}  // namespace

InjectedFault::InjectedFault() : path_(PathFromEnvironment()) {}

InjectedFault::Moment InjectedFault::MomentOf(const std::string& kind) {
  if (kind == "no-room") return Moment::kCopy;
  return absl::EndsWith(kind, "-write") ? Moment::kWrite : Moment::kStep;
}

std::string InjectedFault::Take(uint64_t step, Moment moment) const {
  if (path_.empty()) return "";
  std::ifstream file(path_);
  std::string kind;
  uint64_t at = 0;
  if (!(file >> kind >> at) || MomentOf(kind) != moment) return "";
  // Step 0 in the file means any copy or write.
  if (at != step && (moment == Moment::kStep || at != 0)) return "";
  // rename() succeeds for one of several workers that see the file.
  if (std::rename(path_.c_str(), absl::StrCat(path_, ".done").c_str()) != 0) {
    return "";
  }
  spdlog::warn("injected fault kind={} step={}", kind, step);
  return kind;
}

void InjectedFault::WaitForRelease() const {
  const std::string held = absl::StrCat(path_, ".done");
  while (::access(held.c_str(), F_OK) == 0) {
    absl::SleepFor(absl::Milliseconds(10));
  }
}

// Fails, hangs or blocks before a step, as the file asks.
absl::Status InjectedFault::BeforeStep(uint64_t step) const {
  const std::string kind = Take(step, Moment::kStep);
  if (kind.empty()) return absl::OkStatus();
  if (kind == "hold-step") {
    WaitForRelease();
    return absl::OkStatus();
  }
  if (kind == "hang") {
    while (true) ::pause();
  }
  return kind == "suspect"
             ? engine::cuda::FaultStatus(
                   kEccUncorrectable, "cudaErrorECCUncorrectable",
                   "uncorrectable ECC error encountered", "injected fault")
             : engine::cuda::FaultStatus(
                   kIllegalAddress, "cudaErrorIllegalAddress",
                   "an illegal memory access was encountered",
                   "injected fault");
}

void InjectedFault::BeforeLoad(const std::string& version) const {
  if (path_.empty()) return;
  std::ifstream file(path_);
  std::string kind, name;
  if (!(file >> kind >> name) || name != version) return;
  if (kind == "abort-load") std::abort();
  // The file stays, so that every worker that loads the version is hit.
  while (kind == "hang-load") ::pause();
}

void InjectedFault::BeforeTry(const std::string& job) const {
  if (path_.empty()) return;
  std::ifstream file(path_);
  std::string kind, name;
  if (!(file >> kind >> name) || name != job) return;
  if (kind != "abort-try" && kind != "hang-try") return;
  if (std::rename(path_.c_str(), absl::StrCat(path_, ".done").c_str()) != 0) {
    return;
  }
  if (kind == "abort-try") std::abort();
  while (true) ::pause();
}

absl::Status InjectedFault::BeforeCopy(uint64_t step) const {
  if (Take(step, Moment::kCopy).empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError("injected fault: no host memory");
}

absl::Status InjectedFault::BeforeWrite(uint64_t step) const {
  const std::string kind = Take(step, Moment::kWrite);
  if (kind == "full-write") {
    return absl::ResourceExhaustedError(
        "injected fault: no space left; free space in the state folder");
  }
  if (kind == "hold-write") WaitForRelease();
  return absl::OkStatus();
}

}  // namespace gpupool::server
