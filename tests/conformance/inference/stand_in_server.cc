// Runs the inference service on a free port, with a model "digits" whose worker
// is a thread of this process: the protocol without the engine. Prints the
// port. Ends when its input ends.
#include <iostream>
#include <limits>

#include "spdlog/spdlog.h"
#include "tests/server/api_inference/inference_server.h"

int main() {
  spdlog::set_level(spdlog::level::off);
  const gpupool::server::InferenceServer server;
  std::cout << server.port << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  return 0;
}
