#include "server/worker/command/check_command.h"

#include <google/protobuf/util/json_util.h>
#include <sys/prctl.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/check_model.h"
#include "gpupool/v1/limits.pb.h"
#include "server/ipc/slot_ring.h"
#include "server/serving/model_registry.h"
#include "server/worker/run_worker.h"

namespace gpupool::server {
namespace {

constexpr int kMostRows = v1::MAX_TRAINING_ROWS;

// Reads the request. Returns "", or why it cannot be read.
std::string ReadRequest(const std::string& path,
                        v1::PlanModelRequest& request) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return path + " cannot be read";
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const auto status =
      google::protobuf::util::JsonStringToMessage(text, &request);
  return status.ok() ? "" : path + ": " + std::string(status.message());
}

// Refuses a model whose requests cannot be carried, as an upload does to a
// server with default settings.
void CheckRequests(const v1::PlanModelRequest& request, v1::ModelCheck& check) {
  if (!check.serving().has_plan()) return;
  v1::ModelVersion version;
  *version.mutable_spec() = request.spec();
  *version.mutable_plan() = check.serving().plan();
  version.mutable_serving()->set_max_batch_size(request.max_batch_size());
  const absl::Status carried =
      CheckServable(version, SlotRingOptions{}.slot_bytes);
  if (carried.ok()) return;
  check.mutable_serving()->clear_plan();
  check.mutable_serving()->clear_max_batch_size();
  check.mutable_serving()->set_refused(std::string(carried.message()));
}

v1::ModelCheck Check(const v1::PlanModelRequest& request,
                     const engine::CheckOptions& options) {
  auto check = engine::CheckModel(options);
  if (check.ok()) {
    CheckRequests(request, *check);
    return *std::move(check);
  }
  v1::ModelCheck refused;
  refused.set_refused(std::string(check.status().message()));
  return refused;
}

}  // namespace

int RunCheckCommand(int argc, char** argv) {
  engine::CheckOptions options;
  std::string path;
  CLI::App app("Checks a model file; run by 'gpupool models check'.",
               "gpupool-worker check");
  app.add_option("request", path, "a PlanModelRequest as JSON")->required();
  app.add_option("--training-batch", options.training_batch,
                 "rows of the training step; default 32")
      ->check(CLI::Range(1, kMostRows));
  app.add_option("--threads", options.threads, "threads to plan for; default 1")
      ->check(CLI::Range(1, kMaxWorkerThreads));
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kWorkerDone : kWorkerUsage;
  }
  // Nobody else waits for the report.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  v1::PlanModelRequest request;
  if (const std::string wrong = ReadRequest(path, request); !wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return kWorkerUsage;
  }
  options.spec = request.spec();
  options.serving = {.max_batch_size = request.max_batch_size(),
                     .max_programs = request.max_programs(),
                     .precision = request.precision()};
  std::string json;
  google::protobuf::util::MessageToJsonString(Check(request, options), &json);
  std::printf("%s\n", json.c_str());
  return kWorkerDone;
}

}  // namespace gpupool::server
