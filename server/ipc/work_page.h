// A page on which a worker's compute thread shows its present work to the
// daemon. With it the daemon notices a kernel that never ends although the
// worker's other threads are well, and learns why a worker ended even if it did
// not start it. The page outlives the worker as long as the daemon maps it.
//
// Thread-safety: one thread calls Begin and End; one calls SetFault, once; any
// process may call Read at any time. Readings are checked, since shared memory
// is untrusted input.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/ipc/memory_region.h"

namespace gpupool::server {

// Kinds of work.
enum class WorkPhase : uint32_t {
  kStep,       // one training step
  kInfer,      // one batch of requests
  kGroupStep,  // a training step that waits for other workers
  kOther,      // compiling, loading, evaluating, saving
};
inline constexpr uint32_t kWorkPhases = 4;

// Returns "a training step", ...
absl::string_view WorkPhaseText(WorkPhase phase);

// Returns whether work of this kind takes about as long each time that it is
// done for an owner.
bool HasUsualDuration(WorkPhase phase);

// The job or the version for which a piece of work is done. At most one is set.
struct WorkOwner {
  uint64_t job_id = 0;
  uint64_t version_id = 0;

  friend bool operator==(const WorkOwner&, const WorkOwner&) = default;
};

// Exit codes of a worker that ended by its device's fault.
inline constexpr int kExitDeviceFault = 10;    // a new process may go on
inline constexpr int kExitDeviceSuspect = 11;  // nothing may run there again

struct WorkReading {
  bool busy = false;
  WorkPhase phase = WorkPhase::kOther;  // while busy
  std::chrono::nanoseconds age{0};      // age of the present work
  // Mean duration of the owner's last pieces of this phase; 0: none is known.
  std::chrono::nanoseconds mean{0};
  int fault = 0;  // exit code; 0: none
  std::string fault_text;
  // The owner of the work that met the fault; without a fault that of the
  // present work.
  WorkOwner owner;
};

class WorkPage {
 public:
  // Makes the worker's page. RESOURCE_EXHAUSTED when the system has no memory
  // left.
  static absl::StatusOr<WorkPage> Create();
  // Maps the page in the daemon. INVALID_ARGUMENT when it is no work page.
  static absl::StatusOr<WorkPage> Attach(UniqueFd fd);

  int fd() const { return region_.fd(); }

  // Begins a piece of work. One that begins before the last has ended is shown
  // in its place, and its time does not count for it.
  void Begin(WorkPhase phase, WorkOwner owner = {});
  // Returns the owner of the work that ended.
  WorkOwner End();
  // Notes the fault and whose work met it. `text` is cut to 480 bytes.
  void SetFault(int exit_code, absl::string_view text, WorkOwner owner = {});

  WorkReading Read() const;

 private:
  struct Layout;
  struct Piece {
    WorkPhase phase = WorkPhase::kOther;
    int64_t since = 0;
    WorkOwner owner;
  };
  struct Mean {
    WorkPhase phase = WorkPhase::kOther;
    WorkOwner owner;
    int64_t nanoseconds = 0;  // 0: none is known
  };
  explicit WorkPage(MemoryRegion region) : region_(std::move(region)) {}
  Layout& layout() const;
  void Show(const Piece& piece);
  Mean& MeanOf(const Piece& piece);

  MemoryRegion region_;
  // Used by the worker.
  std::vector<Piece> pieces_;  // the present one last
  std::vector<Mean> means_;    // the one that was used last stands last
};

}  // namespace gpupool::server
