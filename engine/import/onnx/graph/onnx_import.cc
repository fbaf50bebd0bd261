#include "engine/import/onnx/graph/onnx_import.h"

#include <onnx/onnx_pb.h>

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
#include "engine/import/onnx/graph/widen_model.h"

namespace gpupool::engine::onnx_import {
namespace {

// Statuses travel in headers of 8 KiB. Longer lists are cut, with a count of
// the rest.
constexpr size_t kMaxListed = 100;
constexpr size_t kMaxListedBytes = 4096;

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
  GraphImporter importer(file, options);
  absl::StatusOr<ModelGraph> model = importer.Import();
  if (!model.ok()) return Shortened(model.status());
  RETURN_IF_ERROR(WidenModel(
      {.ports = options.wide_ports, .roundings = options.training}, *model));
  WarnOfTraps(file, options.training, *model);
  return model;
}

}  // namespace gpupool::engine::onnx_import
