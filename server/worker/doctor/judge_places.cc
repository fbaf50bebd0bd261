#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/worker/doctor/judge.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kLeastDisk = uint64_t{1} << 30;
constexpr const char* kInMemory[] = {"tmpfs", "ramfs"};
constexpr const char* kNetwork[] = {"nfs",  "cifs",   "smb", "9p",
                                    "fuse", "lustre", "ceph"};
// Flags of gpupoold in the order of the ports.
constexpr const char* kPortFlags[] = {"`--grpc-port`", "`--http-port`",
                                      "`--metrics-port`"};

template <size_t kCount>
bool IsOneOf(const std::string& word, const char* const (&words)[kCount]) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](const char* one) { return word == one; });
}

// Returns whether the folder can be written at all.
bool JudgeWriting(const StateFacts& state, Findings& findings) {
  if (!state.folder_error.empty()) {
    findings.Add("state.no_folder", {state.path, state.folder_error});
  } else if (state.read_only) {
    findings.Add("state.read_only", {state.path});
  } else if (!state.write_error.empty()) {
    findings.Add("state.not_writable", {state.path, state.write_error});
  } else if (!state.sync_error.empty()) {
    findings.Add("state.no_fsync", {state.path, state.sync_error});
  } else {
    return true;
  }
  return false;
}

void JudgeState(const StateFacts& state, Findings& findings) {
  if (!JudgeWriting(state, findings)) return;
  findings.Add("state.ok",
               {state.path, state.file_system, BytesText(state.free_bytes)});
  if (IsOneOf(state.file_system, kInMemory)) {
    findings.Add("state.in_memory", {state.path, state.file_system});
  } else if (IsOneOf(state.file_system, kNetwork)) {
    findings.Add("state.network", {state.path, state.file_system});
  } else if (state.file_system == "overlay") {
    findings.Add("state.overlay", {state.path});
  }
  if (state.free_bytes < kLeastDisk) {
    findings.Add("state.disk_low", {state.path, BytesText(state.free_bytes)});
  }
}

}  // namespace

void JudgePlaces(const DoctorFacts& facts, Findings& findings) {
  if (!facts.state.path.empty()) JudgeState(facts.state, findings);
  // The running server itself holds its ports.
  if (facts.state.held && !facts.ports.empty()) {
    findings.Add("state.held", {facts.state.path});
    return;
  }
  for (const uint16_t port : facts.held_ports) {
    const auto at = static_cast<size_t>(
        std::find(facts.ports.begin(), facts.ports.end(), port) -
        facts.ports.begin());
    findings.Add("port.held",
                 {absl::StrCat(port),
                  at < std::size(kPortFlags) ? kPortFlags[at] : "port"});
  }
}

}  // namespace gpupool::server
