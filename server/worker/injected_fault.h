// Faults on demand, for tests of what a device's fault leads to, on machines
// without a GPU. The file that GPUPOOL_INJECT_FAULT_FILE names holds one line,
//   sticky N    step N fails as after an illegal address in a kernel
//   suspect N   ... as after an uncorrectable memory error
//   hang N      step N never ends
//   hold-step N step N begins when <file>.done is removed
//   hold-write N  writing the checkpoint of step N behind the training begins
//                 when <file>.done is removed; 0: of any step
//   full-write N  ... finds the disk full
//   no-room N     the host has no memory for a copy of the checkpoint of step
//   N;
//                 0: of any step
//   abort-load M  loading the version M (digits/3) ends the process by SIGABRT;
//                 M of a model that is being uploaded has the number 0
//   hang-load M   loading the version M never ends
//   abort-try J   the rehearsal of a job named J ends the process by SIGABRT
//   hang-try J    the rehearsal of a job named J never ends
// and, except for abort-load and hang-load, is renamed to <file>.done when that
// comes, so that the fault happens once. It may be written while the worker
// runs.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gpupool::server {

class InjectedFault {
 public:
  // Reads the environment. Without the variable no fault ever happens.
  InjectedFault();
  explicit InjectedFault(std::string path) : path_(std::move(path)) {}

  // Must be called before each step, with its number.
  absl::Status BeforeStep(uint64_t step) const;
  // Must be called before a version is loaded.
  void BeforeLoad(const std::string& version) const;
  // Must be called before a job is rehearsed.
  void BeforeTry(const std::string& job) const;
  // Must be called before a checkpoint is copied.
  absl::Status BeforeCopy(uint64_t step) const;
  // Must be called before a copy is written, on any thread.
  absl::Status BeforeWrite(uint64_t step) const;

 private:
  // Blocks as long as <file>.done exists.
  void WaitForRelease() const;
  enum class Moment { kStep, kCopy, kWrite };
  static Moment MomentOf(const std::string& kind);
  // Returns the kind of fault that is due and marks it as done; "" when none
  // is.
  std::string Take(uint64_t step, Moment moment) const;

  std::string path_;  // empty: none
};

}  // namespace gpupool::server
