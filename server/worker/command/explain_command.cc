#include "server/worker/command/explain_command.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/explain.h"
#include "gpupool/v1/limits.pb.h"
#include "server/worker/run_worker.h"

namespace gpupool::server {
namespace {

constexpr int kExplained = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

// Adds "sequence=128". Returns "", or why it cannot be parsed.
std::string AddDimension(const std::string& text,
                         engine::ExplainOptions& options) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  int64_t size = 0;
  if (parts.size() != 2 || parts[0].empty() ||
      !absl::SimpleAtoi(parts[1], &size) || size < 1) {
    return "'" + text + "' is not of the form NAME=SIZE";
  }
  options.dimensions[parts[0]] = size;
  return "";
}

}  // namespace

int RunExplainCommand(int argc, char** argv) {
  engine::ExplainOptions options;
  std::vector<std::string> dimensions;
  CLI::App app("Shows how the graph compiler compiles a model.",
               "gpupool-worker explain");
  app.add_option("model", options.model_path,
                 "an ONNX file, or a ModelSpec in JSON")
      ->required();
  app.add_option("--batch", options.batch, "examples per run; default 1")
      ->check(CLI::Range(1, int{v1::MAX_TRAINING_ROWS}));
  app.add_flag("--train", options.training,
               "the training step instead of inference");
  app.add_option("--dimension", dimensions,
                 "NAME=SIZE of a named dimension; may be repeated");
  app.add_option("--precision", options.precision,
                 "highest, bf16 or fp16; default highest")
      ->check(CLI::IsMember({"highest", "high", "bf16", "fp16"}));
  app.add_flag("--passes", options.passes, "one line per pass");
  app.add_option("--off", options.off, "a pass to skip; may be repeated");
  app.add_option(
      "--recompute", options.recompute_layers,
      "names of layers, with '*', whose activations are computed again");
  app.add_option("--recompute-budget-bytes", options.recompute_budget_bytes,
                 "compute activations again until a run's live bytes fit");
  app.add_option("--threads", options.threads, "threads for computing")
      ->check(CLI::Range(1, kMaxWorkerThreads));
  app.add_flag("--dump", options.dump, "the graph after the last pass");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExplained : kUsage;
  }
  for (const std::string& dimension : dimensions) {
    const std::string wrong = AddDimension(dimension, options);
    if (wrong.empty()) continue;
    std::fprintf(stderr, "--dimension: %s\n", wrong.c_str());
    return kUsage;
  }
  const absl::StatusOr<std::string> text = engine::Explain(options);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", std::string(text.status().message()).c_str());
    return kFailed;
  }
  std::fputs(text->c_str(), stdout);
  return kExplained;
}

}  // namespace gpupool::server
