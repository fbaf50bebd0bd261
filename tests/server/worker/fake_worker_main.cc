// gpupool-worker around the stand-in engine: a real process with real sockets,
// memory and files for the tests of the pool and of faults. GPUPOOL_STEP_MICROS
// sets how long a step takes.
#include <cstdlib>

#include "server/worker/run_worker.h"
#include "tests/server/worker/fake_engine.h"

int main(int argc, char** argv) {
  using gpupool::server::Engine;
  using gpupool::server::EngineOptions;
  namespace fake = gpupool::server::testing_engine;
  return gpupool::server::RunWorker(
      argc, argv,
      [](const EngineOptions& options)
          -> absl::StatusOr<std::unique_ptr<Engine>> {
        fake::FakeEngineSettings settings;
        const char* micros = std::getenv("GPUPOOL_STEP_MICROS");
        settings.step_time = std::chrono::microseconds(
            micros == nullptr ? 1000 : std::atoi(micros));
        settings.plan_time = std::chrono::milliseconds(700);
        return std::make_unique<fake::FakeEngine>(settings, options.device);
      });
}
