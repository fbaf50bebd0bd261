#include "server/ipc/worker_paths.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/job_limits.h"

namespace gpupool::server {
namespace {

bool IsDeviceName(absl::string_view device) {
  if (device == "meta" || device == kRehearsalWorker) return true;
  // The name becomes a folder, so nothing that leads elsewhere may pass.
  if (!absl::ConsumePrefix(&device, "cpu:") &&
      !absl::ConsumePrefix(&device, "cuda:")) {
    return false;
  }
  int index = 0;
  // Only one spelling is allowed. "cpu:01" would give a second folder for one
  // device.
  const bool canonical = !device.empty() && absl::ascii_isdigit(device[0]) &&
                         (device.size() == 1 || device[0] != '0');
  return canonical && absl::SimpleAtoi(device, &index) &&
         index <= engine::kMaxDeviceIndex;
}

}  // namespace

std::string WorkerTitle(const std::string& device) {
  if (device == "meta") return "the planner";
  if (device == kRehearsalWorker) return "the rehearsal";
  return absl::StrCat("the worker of ", device);
}

std::string WorkersFolderIn(const std::string& state_dir) {
  return state_dir + "/workers";
}

std::string SpoolIn(const std::string& folder) { return folder + "/spool"; }

absl::StatusOr<WorkerPaths> WorkerPathsFor(const std::string& state_dir,
                                           const std::string& device) {
  if (!IsDeviceName(device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", device,
                     "\" is not a device; write meta, cpu:N or cuda:N with N "
                     "from 0 to ",
                     engine::kMaxDeviceIndex));
  }
  std::string name = device;
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    name[colon] = '-';
  }
  WorkerPaths paths;
  paths.folder = absl::StrCat(WorkersFolderIn(state_dir), "/", name);
  paths.socket = paths.folder + "/socket";
  paths.lease = paths.folder + "/lease";
  paths.log = paths.folder + "/log";
  paths.spool = SpoolIn(paths.folder);
  paths.blobs = state_dir + "/blobs";
  return paths;
}

}  // namespace gpupool::server
