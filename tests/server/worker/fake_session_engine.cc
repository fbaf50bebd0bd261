// Replaces session_engine.cc and the commands in gpupool-fake-worker: a real
// process with real sockets, memory and files around the stand-in engine, for
// the tests of the pool and of faults. GPUPOOL_STEP_MICROS sets how long a step
// takes.
#include <chrono>
#include <cstdlib>

#include "absl/strings/match.h"
#include "server/worker/command/check_command.h"
#include "server/worker/command/devices_command.h"
#include "server/worker/command/doctor_command.h"
#include "server/worker/command/explain_command.h"
#include "server/worker/session_engine.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {

absl::StatusOr<std::unique_ptr<Engine>> MakeSessionEngine(
    const EngineOptions& options) {
  if (absl::StartsWith(options.device, "cuda:")) {
    return absl::FailedPreconditionError("the stand-in drives no GPU");
  }
  testing_engine::FakeEngineSettings settings;
  const char* const micros = std::getenv("GPUPOOL_STEP_MICROS");
  settings.step_time =
      std::chrono::microseconds(micros == nullptr ? 1000 : std::atoi(micros));
  settings.limit_bytes = options.memory_limit_bytes;
  settings.threads = options.threads;
  return std::make_unique<testing_engine::FakeEngine>(settings, options.device);
}

// There is no engine to explain with.
int RunExplainCommand(int, char**) { return 1; }
int RunDevicesCommand(int, char**) { return 1; }
int RunDoctorCommand(int, char**) { return 1; }
int RunCheckCommand(int, char**) { return 1; }

}  // namespace gpupool::server
