#include "engine/import/onnx/file/onnx_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/data/mapped_file.h"
#include "engine/import/onnx/file/buffers.h"
#include "engine/import/onnx/file/graph_check.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/short_status.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/file/unshare_norms.h"
#include "engine/import/onnx/file/wire_check.h"
#include "engine/import/onnx/file/wire_cut.h"

namespace gpupool::engine::onnx_import {
namespace {

std::string FunctionKey(absl::string_view domain, absl::string_view name) {
  return absl::StrCat(NormalDomain(domain), "::", name);
}

// Appends every graph inside of the nodes, outer graphs first.
template <typename Nodes>
void AddSubgraphs(const Nodes& nodes,
                  std::vector<const onnx::GraphProto*>& graphs) {
  for (const onnx::NodeProto& node : nodes) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) {
        graphs.push_back(&attribute.g());
        AddSubgraphs(attribute.g().node(), graphs);
      }
      for (const auto& graph : attribute.graphs()) {
        graphs.push_back(&graph);
        AddSubgraphs(graph.node(), graphs);
      }
    }
  }
}

}  // namespace

OnnxFile::OnnxFile(ExternalFiles external)
    : model_(std::make_unique<onnx::ModelProto>()),
      external_(std::move(external)) {}

OnnxFile::~OnnxFile() = default;

absl::StatusOr<std::shared_ptr<const OnnxFile>> OnnxFile::Parse(
    absl::string_view bytes, ExternalFiles external) {
  // This check comes first, as it bounds the memory that parsing takes.
  RETURN_IF_ERROR(CheckWire(bytes));
  std::shared_ptr<OnnxFile> file(new OnnxFile(std::move(external)));
  file->bytes_ = bytes.size();
  RETURN_IF_ERROR(file->ParseChecked(bytes));
  return file;
}

absl::StatusOr<std::shared_ptr<const OnnxFile>> OnnxFile::OfMapped(
    MappedFile mapped, ExternalFiles external) {
  const auto model = std::make_shared<const MappedFile>(std::move(mapped));
  const absl::string_view bytes(model->bytes().data(), model->bytes().size());
  RETURN_IF_ERROR(CheckWire(bytes));
  external.SetModel(model);
  std::shared_ptr<OnnxFile> file(new OnnxFile(std::move(external)));
  file->bytes_ = bytes.size();
  RETURN_IF_ERROR(file->ParseChecked(CutInitializers(bytes)));
  return file;
}

absl::StatusOr<std::shared_ptr<const OnnxFile>> OnnxFile::Open(
    const std::string& path) {
  namespace fs = std::filesystem;
  // A link may lead to the model, as in the caches of model hubs. Its data are
  // beside the file itself, as for an upload.
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (error) real = path;
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(real.native()));
  return OfMapped(std::move(file),
                  ExternalFiles::Beneath(real.parent_path().native()));
}

absl::Status OnnxFile::ParseChecked(absl::string_view bytes) {
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const uint8_t*>(bytes.data()),
      static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxMessageDepth + 1);
  if (!model_->ParseFromCodedStream(&stream) ||
      !stream.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError("the bytes are not an ONNX model");
  }
  RETURN_IF_ERROR(Shortened(CheckModel(*model_)));
  // This adds initializers, so it precedes the index.
  UnshareNorms(*model_);
  RETURN_IF_ERROR(Shortened(Index()));
  for (Buffer& buffer : FindBuffers(*model_, external_)) {
    buffers_[buffer.name] = std::move(buffer.reason);
  }
  return absl::OkStatus();
}

absl::Status OnnxFile::Index() {
  std::vector<const onnx::GraphProto*> graphs{&model_->graph()};
  AddSubgraphs(model_->graph().node(), graphs);
  for (const auto& function : model_->functions()) {
    functions_[FunctionKey(function.domain(), function.name())] = &function;
    AddSubgraphs(function.node(), graphs);
  }
  absl::flat_hash_map<absl::string_view, int> uses;
  for (const onnx::GraphProto* graph : graphs) {
    for (const auto& tensor : graph->initializer()) {
      absl::StatusOr<TensorType> type = DescribeTensor(tensor, external_);
      // A tensor of an unsupported type is an error only for its readers.
      if (absl::IsInvalidArgument(type.status())) return type.status();
      std::string name = tensor.name();
      // Names may repeat across graphs, so later ones get a number.
      while (stored_.contains(name)) {
        const int use = ++uses.try_emplace(tensor.name(), 1).first->second;
        name = absl::StrCat(tensor.name(), "#", use);
      }
      stored_[name] = &tensor;
      stored_names_[&tensor] = std::move(name);
    }
  }
  return absl::OkStatus();
}

const onnx::FunctionProto* OnnxFile::function(absl::string_view domain,
                                              absl::string_view name) const {
  const auto found = functions_.find(FunctionKey(domain, name));
  return found == functions_.end() ? nullptr : found->second;
}

absl::string_view OnnxFile::buffer_reason(absl::string_view name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? absl::string_view()
                                 : absl::string_view(found->second);
}

absl::string_view OnnxFile::stored_name(const onnx::TensorProto& tensor) const {
  const auto found = stored_names_.find(&tensor);
  return found == stored_names_.end() ? absl::string_view()
                                      : absl::string_view(found->second);
}

const onnx::TensorProto* OnnxFile::stored(absl::string_view name) const {
  const auto found = stored_.find(name);
  return found == stored_.end() ? nullptr : found->second;
}

}  // namespace gpupool::engine::onnx_import
