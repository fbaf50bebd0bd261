#include "server/worker/injected_fault.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/fault_class.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

// Of driver_types.h.
constexpr int kIllegalAddress = 700;
constexpr int kEccUncorrectable = 214;

std::string PathFromEnvironment() {
  const char* const path = std::getenv("GPUPOOL_INJECT_FAULT_FILE");
  return path == nullptr ? "" : path;
}

}  // namespace

InjectedFault::InjectedFault() : path_(PathFromEnvironment()) {}

absl::Status InjectedFault::BeforeStep(uint64_t step) const {
  if (path_.empty()) return absl::OkStatus();
  std::ifstream file(path_);
  std::string kind;
  uint64_t at = 0;
  if (!(file >> kind >> at) || at != step) return absl::OkStatus();
  // Of several workers that see the file one has the fault.
  if (std::rename(path_.c_str(), absl::StrCat(path_, ".done").c_str()) != 0) {
    return absl::OkStatus();
  }
  spdlog::warn("injected fault kind={} step={}", kind, step);
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

}  // namespace gpupool::server
