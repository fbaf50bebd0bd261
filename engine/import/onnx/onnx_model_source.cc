#include "engine/import/onnx/onnx_model_source.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/base/status_macros.h"
#include "engine/data/mapped_file.h"
#include "engine/import/onnx/bind_inputs.h"
#include "engine/import/onnx/check_names.h"
#include "engine/import/onnx/export/replace_weights.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/file/short_status.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "engine/import/onnx/text/text_graph.h"
#include "engine/import/onnx/text/text_source.h"
#include "engine/model/model_blob.h"
#include "engine/passes/formats/widen_halves.h"
#include "engine/tensor/convert.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::onnx_import {
namespace {

// Returns the blob's path after checking that its bytes have the hash in its
// name.
absl::StatusOr<std::string> CheckedBlob(const std::string& sha256,
                                        uint64_t bytes, absl::string_view what,
                                        const std::string& blob_dir) {
  RETURN_IF_ERROR(OpenModelBlob(blob_dir, sha256, bytes, what).status());
  return absl::StrCat(blob_dir, "/", sha256);
}

class OnnxModelSource : public ModelSource {
 public:
  OnnxModelSource(std::shared_ptr<const OnnxFile> file,
                  const v1::OnnxModel& model, ServedSizes served)
      : file_(std::move(file)), model_(model), served_(std::move(served)) {}

  absl::StatusOr<ModelGraph> Build(const BuildOptions& options) const override {
    OnnxBuildOptions build{.batch = options.batch,
                           .dimensions = options.dimensions,
                           .training = options.training,
                           .wide_ports = options.wide_ports,
                           .input_scaling = options.input_scaling,
                           .answers = options.answers};
    build.dimensions.insert(model_.dimensions().begin(),
                            model_.dimensions().end());
    build.unbatched_inputs.insert(model_.unbatched_inputs().begin(),
                                  model_.unbatched_inputs().end());
    for (const ServedDimension& dimension : served_.dimensions) {
      if (build.dimensions.contains(dimension.name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("dimension '", dimension.name, "' has several sizes, ",
                       dimension.Text(),
                       ", which only serving can do; give one, as in "
                       "`dimensions: {",
                       dimension.name, ": ", dimension.maximum, "}`"));
    }
    RETURN_IF_ERROR(AddDerivedTo(served_, build.dimensions));
    ASSIGN_OR_RETURN(build.bound, BindInputs(*file_, build, options.bound));
    return ImportOnnx(*file_, build);
  }

  const ServedSizes& served() const override { return served_; }

  absl::Status CheckNames() const override {
    return Shortened(onnx_import::CheckNames(model_, file_->model().graph()));
  }

  bool stores_halves() const override {
    const auto& tensors = file_->model().graph().initializer();
    return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
      return tensor.data_type() == onnx::TensorProto::FLOAT16 ||
             tensor.data_type() == onnx::TensorProto::BFLOAT16;
    });
  }

  absl::Status ReadStored(absl::string_view name,
                          absl::Span<std::byte> to) const override {
    const onnx::TensorProto* tensor = file_->stored(name);
    if (tensor == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("the model stores no weight \"", name, "\""));
    }
    ASSIGN_OR_RETURN(const TensorType type,
                     DescribeTensor(*tensor, file_->external()));
    if (type.shape.bytes(type.dtype) == to.size()) {
      return CopyTensor(*tensor, file_->external(), to);
    }
    if (IsHalf(type.dtype) && type.shape.bytes(DType::kFloat32) == to.size()) {
      return CopyWide(*tensor, type, to);
    }
    return absl::InvalidArgumentError(absl::StrCat("weight \"", name, "\" has ",
                                                   type.shape.bytes(type.dtype),
                                                   " bytes, not ", to.size()));
  }

  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>& weights) const override {
    return ReplaceWeights(*file_, weights);
  }

 private:
  // Copies a tensor of 16-bit numbers as float32, which has all of them.
  absl::Status CopyWide(const onnx::TensorProto& tensor, const TensorType& type,
                        absl::Span<std::byte> to) const {
    std::vector<std::byte> halves(type.shape.bytes(type.dtype));
    RETURN_IF_ERROR(
        CopyTensor(tensor, file_->external(), absl::MakeSpan(halves)));
    ConvertElements({type.dtype, halves.data()}, {DType::kFloat32, to.data()},
                    type.shape.elements());
    return absl::OkStatus();
  }

  const std::shared_ptr<const OnnxFile> file_;
  const v1::OnnxModel model_;
  const ServedSizes served_;
};

// Returns the names that the file gives the dimensions of its inputs and
// outputs.
std::vector<DeclaredPort> DeclaredPorts(const onnx::GraphProto& graph) {
  std::vector<DeclaredPort> ports;
  for (const auto* infos : {&graph.input(), &graph.output()}) {
    for (const onnx::ValueInfoProto& info : *infos) {
      DeclaredPort& port = ports.emplace_back();
      port.name = info.name();
      for (const auto& dim : info.type().tensor_type().shape().dim()) {
        port.axes.push_back(dim.has_dim_value() ? "" : dim.dim_param());
      }
    }
  }
  return ports;
}

absl::StatusOr<std::shared_ptr<const ModelSource>> OpenMapped(
    const v1::OnnxModel& model, MappedFile mapped, ExternalFiles external) {
  ASSIGN_OR_RETURN(std::shared_ptr<const OnnxFile> file,
                   OnnxFile::OfMapped(std::move(mapped), std::move(external)));
  return MakeOnnxSource(model, std::move(file));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnxModel(
    const v1::OnnxModel& model, const std::string& blob_dir) {
  if (model.external_files_size() > kMaxExternalFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", model.external_files_size(),
                     " external files; the limit is ", kMaxExternalFiles));
  }
  absl::flat_hash_map<std::string, std::string> paths;
  for (const v1::ExternalFile& external : model.external_files()) {
    ASSIGN_OR_RETURN(paths[external.location()],
                     CheckedBlob(external.sha256(), external.bytes(),
                                 "external data", blob_dir));
  }
  ASSIGN_OR_RETURN(
      MappedFile mapped,
      OpenModelBlob(blob_dir, model.sha256(), model.bytes(), "ONNX model"));
  return OpenMapped(model, std::move(mapped),
                    ExternalFiles::Listed(std::move(paths)));
}

absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnxFile(
    const v1::OnnxModel& model, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  return OpenMapped(model, std::move(mapped), ExternalFiles::Beneath(folder));
}

absl::StatusOr<std::shared_ptr<const ModelSource>> MakeOnnxSource(
    const v1::OnnxModel& model, std::shared_ptr<const OnnxFile> file) {
  if (HasTexts(file->model())) return MakeTextSource(model, *file);
  ASSIGN_OR_RETURN(ServedSizes served, ReadServedSizes(model));
  RETURN_IF_ERROR(
      AddDerivedSizes(model, DeclaredPorts(file->model().graph()), served));
  RETURN_IF_ERROR(CheckOperators(*file));
  return std::make_shared<OnnxModelSource>(std::move(file), model,
                                           std::move(served));
}

}  // namespace gpupool::engine::onnx_import
