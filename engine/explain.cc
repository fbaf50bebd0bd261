#include "engine/explain.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/graph/print.h"
#include "engine/import/onnx/onnx_model_source.h"
#include "engine/model/default_training.h"
#include "engine/model/model_programs.h"
#include "engine/model/model_source.h"
#include "engine/model/precision.h"
#include "engine/passes/pipeline.h"
#include "engine/plan/report.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

// The most slow nodes that are listed.
constexpr size_t kMaxSlowNodes = 20;

// Reads a ModelSpec from a JSON file.
absl::StatusOr<v1::ModelSpec> ReadSpec(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  v1::ModelSpec spec;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &spec);
  if (status.ok()) return spec;
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      " is no model specification in JSON: ", std::string(status.message())));
}

absl::StatusOr<std::shared_ptr<const ModelSource>> OpenModel(
    const ExplainOptions& options) {
  if (absl::EndsWith(options.model_path, ".onnx")) {
    v1::OnnxModel model;
    for (const auto& [name, size] : options.dimensions) {
      (*model.mutable_dimensions())[name] = size;
    }
    ASSIGN_OR_RETURN(auto source,
                     onnx_import::OpenOnnxFile(model, options.model_path));
    RETURN_IF_ERROR(source->CheckNames());
    return source;
  }
  ASSIGN_OR_RETURN(const v1::ModelSpec spec, ReadSpec(options.model_path));
  return ModelSource::Open(spec, "");
}

absl::StatusOr<v1::Precision> PrecisionOf(const std::string& name) {
  v1::Precision precision;
  if (v1::Precision_Parse(absl::AsciiStrToUpper(name), &precision)) {
    return precision;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "precision '", name, "' is none of highest, high, bf16 and fp16"));
}

absl::StatusOr<ModelGraph> BuildTraining(const ModelSource& source,
                                         const ExplainOptions& options,
                                         v1::Precision precision) {
  ASSIGN_OR_RETURN(const ModelGraph forward,
                   source.Build({.batch = options.batch}));
  return BuildTrainingGraph(source, {},
                            DefaultTraining(forward, options.batch, precision));
}

std::string Mebibytes(uint64_t bytes) {
  return absl::StrFormat("%.2f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string PassTable(const PassReport& report) {
  std::string text = "passes\n";
  for (const PassRecord& pass : report.passes) {
    const std::string change =
        pass.skipped
            ? "off"
            : absl::StrCat(pass.nodes_before, " -> ", pass.nodes_after);
    absl::StrAppendFormat(&text, "  %-17s %8.2f ms  %-14s %s\n", pass.name,
                          absl::ToDoubleMilliseconds(pass.duration), change,
                          PassSummary(pass.name));
  }
  return text;
}

// Returns a line such as "nodes  12: 5 conv2d, 4 relu, 3 add".
std::string NodesByOp(const Graph& graph) {
  std::map<absl::string_view, int> counts;
  for (const Node& node : graph.nodes()) ++counts[OpName(node.op)];
  std::vector<std::pair<int, absl::string_view>> order;
  // Sorts by falling count, then by name.
  for (const auto& [name, count] : counts) order.push_back({-count, name});
  std::sort(order.begin(), order.end());
  return absl::StrCat("nodes  ", graph.nodes().size(), ": ",
                      absl::StrJoin(order, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, entry.second, " ",
                                                      -entry.first);
                                    }),
                      "\n");
}

// Lists the nodes that run on the reference kernels, which are slow.
std::string SlowNodes(const Graph& graph) {
  std::vector<std::string> slow;
  for (const Node& node : graph.nodes()) {
    const Value& y = graph.value(node.outputs[0]);
    if (y.alias.kind == AliasKind::kView || IsFastOnCpu(node.op, y.dtype)) {
      continue;
    }
    slow.push_back(absl::StrCat("  ", OpName(node.op), " ", DTypeName(y.dtype),
                                " of ", node.source));
  }
  const size_t count = slow.size();
  if (count == 0) return "slow   none\n";
  slow.resize(std::min(count, kMaxSlowNodes));
  return absl::StrCat("slow   ", count, " nodes without a fast kernel\n",
                      absl::StrJoin(slow, "\n"),
                      count > slow.size() ? "\n  ..." : "", "\n");
}

// Returns lines about the bytes, and about how close the arena's plan is to the
// lower bound.
absl::StatusOr<std::string> Bytes(const Program& program) {
  ASSIGN_OR_RETURN(const WeightLayout layout,
                   WeightLayout::Create({&program.graph()}));
  const ProgramBytes& own = program.bytes();
  const PlannedBytes planned = ReportBytes(layout.bytes(), {own});
  std::string text = absl::StrCat(
      "bytes  weights ", Mebibytes(planned.weights), ", optimizer ",
      Mebibytes(planned.optimizer), ", gradients ",
      Mebibytes(planned.gradients), ", activations ",
      Mebibytes(planned.activations), ", workspace ",
      Mebibytes(planned.workspace), ", peak ", Mebibytes(planned.peak), "\n");
  const double ratio = own.arena_lower_bound == 0
                           ? 1
                           : static_cast<double>(own.arena) /
                                 static_cast<double>(own.arena_lower_bound);
  absl::StrAppendFormat(&text, "arena  %s, %.3f of the lower bound\n",
                        Mebibytes(own.arena), ratio);
  return text;
}

class Stopwatch {
 public:
  // Returns the milliseconds since the last call or the start.
  double Lap() {
    const absl::Time now = absl::Now();
    return absl::ToDoubleMilliseconds(now - std::exchange(begin_, now));
  }

 private:
  absl::Time begin_ = absl::Now();
};

}  // namespace

absl::StatusOr<std::string> Explain(const ExplainOptions& options) {
  Stopwatch watch;
  ASSIGN_OR_RETURN(const v1::Precision precision,
                   PrecisionOf(options.precision));
  ASSIGN_OR_RETURN(const auto source, OpenModel(options));
  ASSIGN_OR_RETURN(ModelGraph model,
                   options.training
                       ? BuildTraining(*source, options, precision)
                       : BuildInferenceGraph(*source, false, options.batch));
  const double import_time = watch.Lap();
  PassReport report;
  PassOptions passes{.off = options.off};
  passes.compute = ComputeType(precision);
  CpuBackend backend(options.threads);
  passes.integer_products =
      !options.training && backend.PrefersIntegerProducts();
  passes.recompute = {options.recompute_layers, options.recompute_budget_bytes};
  RETURN_IF_ERROR(RunPasses(model.graph, passes, &report));
  const double passes_time = watch.Lap();
  ASSIGN_OR_RETURN(const Program program,
                   Program::Compile(std::move(model.graph), &backend));
  const double compile_time = watch.Lap();
  std::string text = absl::StrFormat(
      "%s: %s, batch %d, %d threads, %.2f GFLOP\n", options.model_path,
      options.training ? "training" : "inference", options.batch,
      options.threads, static_cast<double>(GraphFlops(program.graph())) / 1e9);
  for (const std::string& warning : model.warnings) {
    absl::StrAppend(&text, "note   ", warning, "\n");
  }
  if (options.passes) absl::StrAppend(&text, PassTable(report));
  ASSIGN_OR_RETURN(const std::string bytes, Bytes(program));
  absl::StrAppend(&text, NodesByOp(program.graph()), bytes,
                  SlowNodes(program.graph()));
  absl::StrAppendFormat(&text,
                        "time   import %.1f ms, passes %.1f ms, kernels and "
                        "plan %.1f ms\n",
                        import_time, passes_time, compile_time);
  if (options.dump) absl::StrAppend(&text, Print(program.graph()));
  return text;
}

}  // namespace gpupool::engine
