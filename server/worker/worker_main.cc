// gpupool-worker: one process per device.
#include "server/worker/run_worker.h"
#include "server/worker/session_engine.h"

int main(int argc, char** argv) {
  return gpupool::server::RunWorker(argc, argv,
                                    gpupool::server::MakeSessionEngine);
}
