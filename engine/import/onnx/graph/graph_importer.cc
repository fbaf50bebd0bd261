#include "engine/import/onnx/graph/graph_importer.h"

#include <onnx/onnx_pb.h>

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/control_flow.h"
#include "engine/import/onnx/graph/functions.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/graph/needed_inputs.h"
#include "engine/import/onnx/graph/sequences.h"

namespace gpupool::engine::onnx_import {
namespace {

// Larger initializers are persistent for any type: a constant takes eight bytes
// per number in every copy of a graph.
constexpr int64_t kMaxConstantElements = 65536;

bool IsPersistent(const TensorType& type) {
  if (type.shape.elements() == 0) return false;
  return (IsFloating(type.dtype) && type.shape.rank() >= 1) ||
         type.shape.elements() > kMaxConstantElements;
}

OperatorSets OperatorSetsOf(const onnx::ModelProto& model) {
  OperatorSets sets;
  for (const auto& import : model.opset_import()) {
    // "" and "ai.onnx" name the same domain.
    sets[NormalDomain(import.domain())] = static_cast<int>(import.version());
  }
  return sets;
}

// Collects the values of names. Names that a scope lacks are those of later
// nodes, or of nodes in bodies.
class LiveNames {
 public:
  LiveNames(const Scope* scope, ValueIds* live) : scope_(scope), live_(live) {}

  void Add(absl::string_view name) const {
    const Entry* entry = name.empty() ? nullptr : scope_->Find(name);
    if (entry != nullptr) Add(*entry);
  }
  void AddNode(const onnx::NodeProto& node) const {
    for (const std::string& input : node.input()) Add(input);
    AddBodies(node);
  }
  void AddBodies(const onnx::NodeProto& node) const {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) AddBody(attribute.g());
      for (const auto& graph : attribute.graphs()) AddBody(graph);
    }
  }

 private:
  void Add(const Entry& entry) const {
    if (entry.value.valid()) live_->push_back(entry.value);
    if (!entry.is_sequence()) return;
    for (const Entry& one : *entry.sequence) Add(one);
  }
  void AddBody(const onnx::GraphProto& graph) const {
    for (const onnx::NodeProto& node : graph.node()) AddNode(node);
    for (const auto& output : graph.output()) Add(output.name());
  }

  const Scope* scope_;
  ValueIds* live_;
};

absl::Status Refusal(absl::string_view title, absl::string_view what,
                     const absl::Status& status) {
  return AtPlace(absl::StrCat(title, ": ", what), status);
}

}  // namespace

GraphImporter::GraphImporter(const OnnxFile& file,
                             const OnnxBuildOptions& options,
                             const absl::flat_hash_set<std::string>& run_loops)
    : file_(file),
      options_(options),
      values_(&model_.graph,
              ImportBudget(
                  options.bound.empty() ? kImportBudget : kBoundImportBudget,
                  file.bytes()),
              [this](const std::string& name) { return ReadPersistent(name); }),
      operator_sets_(OperatorSetsOf(file.model())),
      stages_(options.answers, run_loops) {}

absl::Status GraphImporter::Import() {
  Scope scope(nullptr, &operator_sets_);
  scope_ = &scope;
  RETURN_IF_ERROR(AddModelInputs(*this, scope));
  RETURN_IF_ERROR(AddInitializers(file_.model().graph(), scope));
  RETURN_IF_ERROR(ImportTopLevel());
  RETURN_IF_ERROR(AddModelOutputs(*this, scope));
  scope_ = nullptr;
  return absl::OkStatus();
}

absl::Status GraphImporter::ImportTopLevel() {
  int region = 0;
  frames_.push_back(FrameOf(file_.model().graph(), scope_));
  for (const onnx::NodeProto& node : file_.model().graph().node()) {
    frames_.back().at = static_cast<size_t>(region);
    const size_t first_node = model_.graph.nodes().size();
    const size_t first_persistent = model_.persistents.size();
    values_.builder().SetSource(NodeName(node), region++);
    RETURN_IF_ERROR(ImportNode(node));
    Describe(node, first_node, first_persistent);
  }
  frames_.pop_back();
  return absl::OkStatus();
}

void GraphImporter::Describe(const onnx::NodeProto& node, size_t first_node,
                             size_t first_persistent) {
  LayerInfo info{.name = std::string(NodeName(node)), .kind = node.op_type()};
  const Entry* entry = node.output_size() > 0 ? Find(node.output(0)) : nullptr;
  if (entry != nullptr && entry->value.valid()) {
    const Shape& shape = values_.value(entry->value).shape;
    // The importer knows sizes, not names of axes. An output whose first size
    // equals the batch is shown without it.
    const bool batched = shape.rank() > 0 && shape[0] == options_.batch;
    info.output_shape =
        batched ? *Shape::CreateMaybeEmpty(shape.dims().subspan(1)) : shape;
  }
  for (size_t i = first_persistent; i < model_.persistents.size(); ++i) {
    const PersistentSpec& persistent = model_.persistents[i];
    if (!persistent.is_parameter()) continue;
    info.parameters += static_cast<uint64_t>(persistent.shape.elements());
  }
  for (size_t i = first_node; i < model_.graph.nodes().size(); ++i) {
    info.flops += NodeFlops(model_.graph, model_.graph.nodes()[i]);
  }
  // The graph is made for a whole batch. Reports are for one row.
  info.flops /= static_cast<uint64_t>(options_.batch);
  model_.layers.push_back(std::move(info));
}

absl::Status GraphImporter::AddInitializers(const onnx::GraphProto& graph,
                                            Scope& scope) {
  for (const auto& tensor : graph.initializer()) {
    // A bound input takes the place of the initializer that is its default.
    if (options_.bound.contains(tensor.name()) && scope_ == &scope &&
        depth_ == 0 && scope.Find(tensor.name()) != nullptr) {
      continue;
    }
    scope.Define(tensor.name(),
                 {.stored = &tensor, .element_type = tensor.data_type()});
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::ImportNode(const onnx::NodeProto& node) {
  // A short file can unroll to a huge graph: nested loops multiply their trip
  // counts.
  if (++imported_nodes_ > kMaxImportedNodes) {
    return absl::InvalidArgumentError(absl::StrCat(
        NodeTitle(node), ": with loops unrolled and functions expanded the ",
        "model has more than ", kMaxImportedNodes, " nodes"));
  }
  // The budget is charged before any work, so that a hostile file cannot make
  // the importer slow.
  RETURN_IF_ERROR(Visit(node));
  const absl::string_view domain = NormalDomain(node.domain());
  // The file's own functions come before operators of the same name.
  if (const auto* function = file_.function(domain, node.op_type())) {
    return ImportCall(node, *function);
  }
  RETURN_IF_ERROR(LowerNode(node, domain));
  // A lowering may leave out an optional output. Here a later node may read it.
  for (const std::string& output : node.output()) {
    if (output.empty() || Find(output) != nullptr) continue;
    return absl::UnimplementedError(absl::StrCat(
        NodeTitle(node), ": its output '", output, "' is not supported"));
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::Visit(const onnx::NodeProto& node) {
  const absl::Status visited = values_.budget().Visit(
      kPartsOfNode + node.input_size() + node.output_size() +
      2 * int64_t{node.attribute_size()});
  const absl::Status status =
      visited.ok() ? values_.budget().CheckHeld() : visited;
  return status.ok() ? status : AtPlace(NodeTitle(node), status);
}

absl::Status GraphImporter::Visit(const onnx::GraphProto& graph) {
  const absl::Status visited = values_.budget().Visit(
      kPartsOfNode + graph.output_size() +
      2 * (int64_t{graph.input_size()} + graph.initializer_size()));
  const absl::Status status =
      visited.ok() ? values_.budget().CheckHeld() : visited;
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("the subgraph '", graph.name(), "': ", status.message()));
}

absl::Status GraphImporter::LowerNode(const onnx::NodeProto& node,
                                      absl::string_view domain) {
  if (domain.empty()) {
    if (const NodeImport import = FindControlFlow(node.op_type())) {
      return import(*this, node);
    }
    if (const NodeImport import = FindSequenceOperator(*this, node)) {
      return import(*this, node);
    }
  }
  const auto version = scope_->operator_sets().find(domain);
  // A domain that the file does not import has no version.
  const int opset =
      version == scope_->operator_sets().end() ? 0 : version->second;
  const OperatorEntry* entry = FindOperator(domain, node.op_type());
  if (entry != nullptr) {
    NodeContext context(node, opset, this);
    return entry->lowering(context);
  }
  // Operators without a lowering may still be functions of others.
  ASSIGN_OR_RETURN(const onnx::FunctionProto* body,
                   SchemaFunction(*this, node, opset));
  if (body != nullptr) return ImportCall(node, *body);
  return absl::UnimplementedError(
      absl::StrCat(NodeTitle(node), ": the operator is not supported"));
}

absl::StatusOr<std::vector<Entry>> GraphImporter::ImportSubgraph(
    const onnx::GraphProto& graph, const std::vector<Entry>& inputs) {
  if (static_cast<size_t>(graph.input_size()) != inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the subgraph '", graph.name(), "' has ", graph.input_size(),
        " inputs; its node gives ", inputs.size()));
  }
  if (depth_ >= kMaxCallDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "subgraphs and functions nest deeper than ", kMaxCallDepth));
  }
  RETURN_IF_ERROR(Visit(graph));
  Scope* const outer = scope_;
  // The bodies of If, Loop and Scan read the names around them (ONNX IR, name
  // scoping). A function does not.
  Scope scope(outer, &outer->operator_sets());
  // Leaves the scope on errors, too.
  const absl::Cleanup leave = [this, outer] {
    scope_ = outer;
    frames_.pop_back();
    --depth_;
  };
  scope_ = &scope;
  frames_.push_back(FrameOf(graph, &scope));
  ++depth_;
  for (int i = 0; i < graph.input_size(); ++i) {
    scope.Define(graph.input(i).name(), inputs[static_cast<size_t>(i)]);
  }
  RETURN_IF_ERROR(AddInitializers(graph, scope));
  for (int i = 0; i < graph.node_size(); ++i) {
    frames_.back().at = static_cast<size_t>(i);
    RETURN_IF_ERROR(ImportNode(graph.node(i)));
  }
  std::vector<Entry> outputs;
  for (const auto& output : graph.output()) {
    const Entry* entry = scope.Find(output.name());
    if (entry == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("output '", output.name(), "' of the subgraph '",
                       graph.name(), "' is missing"));
    }
    // The entries are copied, because the scope ends with this call.
    outputs.push_back(*entry);
  }
  return outputs;
}

absl::Status GraphImporter::ImportCall(const onnx::NodeProto& node,
                                       const onnx::FunctionProto& function) {
  if (node.input_size() > function.input_size() ||
      node.output_size() > function.output_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        NodeTitle(node), ": the function takes ", function.input_size(),
        " inputs and gives ", function.output_size(), " outputs"));
  }
  if (depth_ >= kMaxCallDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(NodeTitle(node), ": subgraphs and functions nest deeper ",
                     "than ", kMaxCallDepth));
  }
  RETURN_IF_ERROR(values_.budget().Visit(
      2 * (static_cast<int64_t>(scope_->operator_sets().size()) +
           function.opset_import_size() + function.input_size())));
  // A function may be written for other versions of the operators than the
  // model.
  OperatorSets sets = scope_->operator_sets();
  for (const auto& import : function.opset_import()) {
    sets[NormalDomain(import.domain())] = static_cast<int>(import.version());
  }
  Scope* const outer = scope_;
  // A function sees no names around it: its scope has no outer one.
  Scope scope(nullptr, &sets);
  const absl::Cleanup leave = [this, outer] {
    scope_ = outer;
    frames_.pop_back();
    --depth_;
  };
  frames_.push_back(FrameOf(function, &scope));
  // Inputs are looked up before the scope changes.
  for (int i = 0; i < node.input_size(); ++i) {
    const Entry* entry = Find(node.input(i));
    if (entry != nullptr) scope.Define(function.input(i), *entry);
  }
  scope_ = &scope;
  ++depth_;
  for (int i = 0; i < function.node_size(); ++i) {
    frames_.back().at = static_cast<size_t>(i);
    ASSIGN_OR_RETURN(const onnx::NodeProto* filled,
                     FillAttributes(*this, function.node(i), node));
    RETURN_IF_ERROR(ImportNode(*filled));
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const Entry* entry = scope.Find(function.output(i));
    if (entry != nullptr) outer->Define(node.output(i), *entry);
  }
  return absl::OkStatus();
}

GraphImporter::Frame GraphImporter::FrameOf(const onnx::GraphProto& graph,
                                            const Scope* scope) {
  Frame frame{.scope = scope,
              .nodes = absl::MakeSpan(graph.node().data(),
                                      static_cast<size_t>(graph.node_size()))};
  for (const auto& output : graph.output()) {
    frame.outputs.push_back(output.name());
  }
  return frame;
}

GraphImporter::Frame GraphImporter::FrameOf(const onnx::FunctionProto& function,
                                            const Scope* scope) {
  Frame frame{
      .scope = scope,
      .nodes = absl::MakeSpan(function.node().data(),
                              static_cast<size_t>(function.node_size()))};
  for (const std::string& output : function.output()) {
    frame.outputs.push_back(output);
  }
  return frame;
}

std::string GraphImporter::Place() const {
  return absl::StrJoin(frames_, "/", [](std::string* text, const Frame& frame) {
    absl::StrAppend(text, frame.at);
  });
}

absl::Status GraphImporter::EndStage(StageEnd end,
                                     std::vector<StageOutput> outputs,
                                     ValueIds needed) {
  ValueIds live = LiveValues();
  live.insert(live.end(), needed.begin(), needed.end());
  return stages_.End(std::move(end), std::move(outputs), std::move(live));
}

ValueIds GraphImporter::LiveValues() const {
  ValueIds live;
  for (const Frame& frame : frames_) {
    const LiveNames names(frame.scope, &live);
    // Later iterations of a loop read what its body reads, and the branch that
    // is taken has yet to be imported. Other bodies around the innermost node
    // have frames of their own.
    const onnx::NodeProto& now = *frame.nodes[frame.at];
    if (&frame == &frames_.back() || now.op_type() == "Loop") {
      names.AddBodies(now);
    }
    for (size_t i = frame.at + 1; i < frame.nodes.size(); ++i) {
      names.AddNode(*frame.nodes[i]);
    }
    for (absl::string_view output : frame.outputs) names.Add(output);
  }
  return live;
}

const Entry* GraphImporter::Find(absl::string_view name) const {
  return name.empty() ? nullptr : scope_->Find(name);
}

absl::StatusOr<ValueId> GraphImporter::Materialize(const Entry& entry,
                                                   MemoryClass memory_class) {
  if (entry.stored == nullptr) return entry.value;
  // An initializer becomes one value, however many nodes read it.
  const auto known = materialized_.find(entry.stored);
  if (known != materialized_.end()) return known->second;
  ASSIGN_OR_RETURN(const TensorType type,
                   DescribeTensor(*entry.stored, file_.external()));
  const std::string name(file_.stored_name(*entry.stored));
  if (IsWidened(entry.stored->data_type())) {
    Warn(absl::StrCat("'", name, "' is ",
                      OnnxTypeName(entry.stored->data_type()), " and held as ",
                      DTypeName(type.dtype)));
  }
  ValueId id;
  if (name.empty() || !IsPersistent(type)) {
    ASSIGN_OR_RETURN(HostTensor tensor,
                     ReadTensor(*entry.stored, file_.external()));
    id = values_.Constant(std::move(tensor));
  } else {
    // Integers are not trained, nor are numbers that the file has no bits for.
    if (!IsFloating(type.dtype) || IsWidened(entry.stored->data_type())) {
      memory_class = MemoryClass::kState;
    }
    ASSIGN_OR_RETURN(id,
                     values_.builder().Persistent(name, type, memory_class));
    const bool buffer = memory_class == MemoryClass::kWeight &&
                        !file_.buffer_reason(name).empty();
    model_.persistents.push_back(
        {.name = name,
         .dtype = type.dtype,
         .shape = type.shape,
         .memory_class = memory_class,
         .initializer = {.kind = Initializer::Kind::kStored},
         .buffer = buffer});
  }
  return materialized_[entry.stored] = id;
}

absl::StatusOr<HostTensor> GraphImporter::ReadPersistent(
    const std::string& name) const {
  const onnx::TensorProto* tensor = file_.stored(name);
  if (tensor == nullptr) {
    return absl::InternalError(absl::StrCat("'", name, "' is not stored"));
  }
  return ReadTensor(*tensor, file_.external());
}

bool GraphImporter::HasNumbers(const Entry& entry) {
  return entry.stored != nullptr ||
         (entry.value.valid() && values_.HasNumbers(entry.value));
}

absl::StatusOr<HostTensor> GraphImporter::Numbers(const Entry& entry,
                                                  absl::string_view title,
                                                  absl::string_view what) {
  if (entry.stored != nullptr) {
    ASSIGN_OR_RETURN(const TensorType type,
                     DescribeTensor(*entry.stored, file_.external()));
    absl::Status spent = values_.Spend(type.shape.elements());
    if (!spent.ok()) return Refusal(title, what, spent);
    return ReadTensor(*entry.stored, file_.external());
  }
  if (!entry.value.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat(title, ": ", what, " is not a tensor"));
  }
  if (!values_.HasNumbers(entry.value)) {
    const std::vector<std::string> inputs = values_.InputsOf(entry.value);
    if (absl::c_any_of(inputs, IsStageInput)) {
      return absl::UnimplementedError(absl::StrCat(
          title, ": ", what, " depends on computed values, and must be known ",
          "when the program is made; only conditions, trip counts and numbers ",
          "of rows may be computed"));
    }
    return NeedsInputs(title, what, inputs);
  }
  absl::StatusOr<HostTensor> numbers = values_.Numbers(entry.value);
  if (numbers.ok()) return numbers;
  return Refusal(title, what, numbers.status());
}

const onnx::NodeProto* GraphImporter::Keep(
    std::unique_ptr<onnx::NodeProto> node) {
  return kept_nodes_.emplace_back(std::move(node)).get();
}

absl::StatusOr<const onnx::FunctionProto*> GraphImporter::Keep(
    std::unique_ptr<onnx::FunctionProto> function) {
  RETURN_IF_ERROR(values_.budget().Hold(function->SpaceUsedLong()));
  return kept_functions_.emplace_back(std::move(function)).get();
}

uint64_t GraphImporter::NewStream(absl::string_view name) {
  // Streams depend on names, not on positions. A change elsewhere in the file
  // leaves the random numbers of a node as they were.
  uint64_t index = PhiloxNameIndex(std::string_view(name.data(), name.size()));
  // Nodes with the same name continue after the last number that one of them
  // took.
  uint64_t& next = next_streams_.try_emplace(index, index).first->second;
  while (!streams_.insert(next).second) ++next;
  return PhiloxStreamId(PhiloxStream::kDropout, next);
}

void GraphImporter::Warn(std::string text) {
  // A file with many nodes could otherwise fill the answer with warnings.
  constexpr size_t kMaxWarnings = 100;
  if (model_.warnings.size() < kMaxWarnings && warned_.insert(text).second) {
    model_.warnings.push_back(std::move(text));
  }
}

}  // namespace gpupool::engine::onnx_import
