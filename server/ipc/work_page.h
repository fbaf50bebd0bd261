// What a worker's compute thread is at, on a page that the daemon reads: the
// daemon notices a kernel that never ends although the worker's other threads
// are well, and learns why a worker ended even if it was not the one that
// started it. The page outlives the worker as long as the daemon maps it.
//
// Thread-safety: one thread calls Begin and End, one SetFault, once; any
// process may Read at any time. What is read is checked: shared memory is
// input, not truth.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/ipc/memory_region.h"

namespace gpupool::server {

// What takes how long is known of the first two only.
enum class WorkPhase : uint32_t {
  kStep,       // one training step
  kInfer,      // one batch of requests
  kGroupStep,  // a training step that waits for other workers
  kOther,      // compiling, loading, evaluating, saving
};
inline constexpr uint32_t kWorkPhases = 4;

// "a training step", ...
absl::string_view WorkPhaseText(WorkPhase phase);

// Exit codes of a worker that its device's fault ended.
inline constexpr int kExitDeviceFault = 10;    // a new process may go on
inline constexpr int kExitDeviceSuspect = 11;  // nothing is to run there again

struct WorkReading {
  bool busy = false;
  WorkPhase phase = WorkPhase::kOther;  // while busy
  std::chrono::nanoseconds age{0};      // of the present piece of work
  std::chrono::nanoseconds mean{0};     // of the phase's last pieces; 0: none
  int fault = 0;                        // exit code; 0: none
  std::string fault_text;
};

class WorkPage {
 public:
  // The worker's. RESOURCE_EXHAUSTED when the system has no memory left.
  static absl::StatusOr<WorkPage> Create();
  // The daemon's. INVALID_ARGUMENT when it is no work page.
  static absl::StatusOr<WorkPage> Attach(UniqueFd fd);

  int fd() const { return region_.fd(); }

  // A piece that begins before the last one has ended is shown in its place and
  // does not count for it.
  void Begin(WorkPhase phase);
  void End();
  // `text` is cut to 480 bytes.
  void SetFault(int exit_code, absl::string_view text);

  WorkReading Read() const;

 private:
  struct Layout;
  struct Piece {
    uint32_t phase = 0;
    int64_t since = 0;
  };
  explicit WorkPage(MemoryRegion region) : region_(std::move(region)) {}
  Layout& layout() const;
  void Show(const Piece& piece);

  MemoryRegion region_;
  std::vector<Piece> pieces_;  // the worker's, the present one last
};

}  // namespace gpupool::server
