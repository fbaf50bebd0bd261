#include "server/worker/command/devices_command.h"

#include <CLI/App.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/cuda_devices.h"
#include "server/worker/gpu_facts_text.h"
#include "server/worker/run_worker.h"

namespace gpupool::server {

int RunDevicesCommand(int argc, char** argv) {
  engine::CudaOptions options;
  CLI::App app("Lists the GPUs that workers can open, as JSON.",
               "gpupool-worker devices");
  app.add_option("--cuda-lib-dir", options.vendor_library_dirs,
                 "folder of NVIDIA's libraries");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kWorkerDone : kWorkerUsage;
  }
  const auto devices = engine::ListCudaDevices(options);
  if (!devices.ok()) {
    std::fprintf(stderr, "%s\n",
                 std::string(devices.status().message()).c_str());
    return ExitWithoutEngine(devices.status());
  }
  const auto links = engine::ListCudaLinks(options);
  const auto architectures = engine::ListCudaArchitectures(options);
  nlohmann::json gpus = nlohmann::json::array();
  for (size_t i = 0; i < devices->size(); ++i) {
    const engine::DeviceFacts& facts = devices->at(i);
    gpus.push_back(ToJson(facts));
    gpus.back()["device"] = absl::StrCat("cuda:", i);
    gpus.back()["usable_bytes"] = engine::UsableBytes(facts);
    if (links.ok()) gpus.back()["links"] = links->at(i);
    const absl::Status runs =
        architectures.ok() ? engine::CheckArchitecture(*architectures, facts)
                           : architectures.status();
    if (!runs.ok()) gpus.back()["refusal"] = std::string(runs.message());
  }
  nlohmann::json all = {{"gpus", std::move(gpus)}};
  if (architectures.ok()) all["kernels_for"] = engine::ToText(*architectures);
  std::printf("%s\n",
              all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                  .c_str());
  return kWorkerDone;
}

}  // namespace gpupool::server
