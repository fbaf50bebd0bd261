#include "engine/import/onnx/graph/onnx_import.h"

#include <onnx/onnx_pb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/short_status.h"
#include "engine/import/onnx/file/traps.h"
#include "engine/import/onnx/graph/control_flow.h"
#include "engine/import/onnx/graph/functions.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/graph/sequences.h"
#include "engine/import/onnx/graph/split_stage.h"
#include "engine/import/onnx/graph/widen_model.h"

namespace gpupool::engine::onnx_import {
namespace {

// Statuses travel in headers of 8 KiB. Longer lists are cut, with a count of
// the rest.
constexpr size_t kMaxListed = 100;
constexpr size_t kMaxListedBytes = 4096;

// Most loops that are not unrolled. Each costs another import.
constexpr size_t kMaxRunLoops = 64;

class OperatorCheck {
 public:
  explicit OperatorCheck(const OnnxFile& file) : file_(file) {
    for (const auto& import : file.model().opset_import()) {
      versions_[NormalDomain(import.domain())] =
          static_cast<int>(import.version());
    }
  }

  template <typename Nodes>
  void Visit(const Nodes& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      if (!IsSupported(node)) Add(node);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) Visit(attribute.g().node());
        for (const auto& graph : attribute.graphs()) Visit(graph.node());
      }
    }
  }

  absl::Status Result() const {
    if (unsupported_.empty()) return absl::OkStatus();
    std::string text = absl::StrJoin(unsupported_, ", ");
    if (not_listed_ > 0) absl::StrAppend(&text, " and ", not_listed_, " more");
    return absl::UnimplementedError(
        absl::StrCat("operators that are not supported: ", text));
  }

 private:
  bool IsSupported(const onnx::NodeProto& node) const {
    const absl::string_view domain = NormalDomain(node.domain());
    if (file_.function(domain, node.op_type()) != nullptr) return true;
    if (domain.empty() && (FindControlFlow(node.op_type()) != nullptr ||
                           IsSequenceOperator(node.op_type()))) {
      return true;
    }
    if (FindOperator(domain, node.op_type()) != nullptr) return true;
    const auto version = versions_.find(domain);
    return version != versions_.end() &&
           HasSchemaFunction(domain, node.op_type(), version->second);
  }

  void Add(const onnx::NodeProto& node) {
    std::string title = NodeTitle(node);
    listed_bytes_ += title.size();
    if (unsupported_.size() < kMaxListed && listed_bytes_ < kMaxListedBytes) {
      unsupported_.push_back(std::move(title));
    } else {
      ++not_listed_;
    }
  }

  const OnnxFile& file_;
  absl::flat_hash_map<std::string, int> versions_;
  std::vector<std::string> unsupported_;
  size_t listed_bytes_ = 0;
  size_t not_listed_ = 0;
};

// Adds what the user should know of the file.
void WarnOfTraps(const OnnxFile& file, bool training, ModelGraph& model) {
  for (std::string& trap : ModelTraps(file.model())) {
    model.warnings.push_back(std::move(trap));
  }
  std::vector<Buffer> buffers;
  absl::flat_hash_set<std::string> names;
  for (const PersistentSpec& spec : model.persistents) {
    if (!spec.buffer) continue;
    buffers.push_back({spec.name, std::string(file.buffer_reason(spec.name))});
    names.insert(spec.name);
  }
  if (!buffers.empty()) model.warnings.push_back(BufferTrap(buffers));
  if (!training) return;
  for (std::string& trap : TrainingTraps(file.model(), names)) {
    model.warnings.push_back(std::move(trap));
  }
}

// Reduces the import to a stage, and gives its numbers the types in which they
// are computed.
absl::Status Finish(const OnnxBuildOptions& options, GraphImporter& importer) {
  ModelGraph& model = importer.model();
  const WidenModelOptions widen{.ports = options.wide_ports,
                                .roundings = options.training};
  const Stages& stages = importer.stages();
  if (!stages.end().has_value() &&
      (!options.answers.has_value() || options.answers->empty())) {
    return WidenModel(widen, model);
  }
  StageParts parts{.first_node = stages.first_node(),
                   .outputs = stages.outputs(),
                   .live = stages.live()};
  if (!stages.end().has_value()) {
    for (const ModelPort& port : model.outputs) {
      parts.outputs.push_back(
          {port.name, port.value, port.declared, port.loop});
    }
  }
  std::vector<ModelPort> inputs = model.inputs;
  std::vector<std::string> kept = SplitStage(parts, model);
  if (stages.end().has_value()) {
    auto end = std::make_shared<StageEnd>(*stages.end());
    end->kept = std::move(kept);
    model.stage_end = std::move(end);
  }
  RETURN_IF_ERROR(WidenModel(widen, model));
  // All inputs of the model are described, not those of the stage only.
  for (ModelPort& port : inputs) port.value = {};
  model.inputs = std::move(inputs);
  return absl::OkStatus();
}

// Imports the file, or a stage of it. Starts over when a loop that it has begun
// to unroll must run instead.
absl::StatusOr<ModelGraph> ImportWhole(const OnnxFile& file,
                                       const OnnxBuildOptions& options) {
  absl::flat_hash_set<std::string> run_loops;
  while (true) {
    GraphImporter importer(file, options, run_loops);
    const absl::Status imported = importer.Import();
    const std::vector<std::string>& loops = importer.stages().loops_to_run();
    if (!imported.ok() && !loops.empty()) {
      run_loops.insert(loops.begin(), loops.end());
      if (run_loops.size() <= kMaxRunLoops) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the model has more than ", kMaxRunLoops,
          " loops whose number of iterations depends on computed values"));
    }
    if (!imported.ok() && !importer.stages().end().has_value()) return imported;
    RETURN_IF_ERROR(Finish(options, importer));
    return std::move(importer.model());
  }
}

}  // namespace

absl::Status CheckOperators(const OnnxFile& file) {
  OperatorCheck check(file);
  check.Visit(file.model().graph().node());
  for (const auto& function : file.model().functions()) {
    check.Visit(function.node());
  }
  return check.Result();
}

absl::StatusOr<ModelGraph> ImportOnnx(const OnnxFile& file,
                                      const OnnxBuildOptions& options) {
  if (options.batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch size ", options.batch, " must be at least 1"));
  }
  RETURN_IF_ERROR(CheckOperators(file));
  absl::StatusOr<ModelGraph> model = ImportWhole(file, options);
  if (!model.ok()) return Shortened(model.status());
  WarnOfTraps(file, options.training, *model);
  return model;
}

}  // namespace gpupool::engine::onnx_import
