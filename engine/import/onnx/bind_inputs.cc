#include "engine/import/onnx/bind_inputs.h"

#include <onnx/onnx_pb.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

template <typename... Parts>
absl::Status RefuseInput(const std::string& input, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("bound input '", input, "' ", parts...));
}

const onnx::ValueInfoProto* FindInput(const OnnxFile& file,
                                      const std::string& name) {
  for (const auto& input : file.model().graph().input()) {
    if (input.name() == name) return &input;
  }
  return nullptr;
}

// Returns the declared sizes, with -1 for a dimension without one.
std::vector<int64_t> DeclaredSizes(const onnx::ValueInfoProto& input,
                                   const OnnxBuildOptions& options) {
  std::vector<int64_t> sizes;
  for (const auto& dim : input.type().tensor_type().shape().dim()) {
    const auto named = options.dimensions.find(dim.dim_param());
    sizes.push_back(dim.has_dim_value()                 ? dim.dim_value()
                    : named != options.dimensions.end() ? named->second
                                                        : -1);
  }
  return sizes;
}

absl::StatusOr<Shape> ShapeFor(const std::string& name,
                               std::vector<int64_t> sizes, int64_t count) {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : sizes) {
    if (size >= 0) {
      if (__builtin_mul_overflow(known, size, &known)) {
        return RefuseInput(name, "is too large");
      }
    } else if (open == nullptr) {
      open = &size;
    } else {
      return RefuseInput(
          name,
          "has more than one dimension without a size; give sizes "
          "with `--dimension NAME=SIZE`, or in a job file under "
          "`dimensions`");
    }
  }
  // The division may leave a rest, which the next check finds.
  if (open != nullptr) *open = known == 0 ? 0 : count / known;
  absl::StatusOr<Shape> shape = Shape::CreateMaybeEmpty(sizes);
  if (!shape.ok()) return RefuseInput(name, shape.status().message());
  if (shape->elements() != count) {
    return RefuseInput(name, "has ", count, " numbers; its shape ",
                       shape->ToString(), " needs ", shape->elements(),
                       ": give as many with `--bound ", name, "=NUMBER,...`");
  }
  return shape;
}

}  // namespace

absl::StatusOr<absl::flat_hash_map<std::string, HostTensor>> BindInputs(
    const OnnxFile& file, const OnnxBuildOptions& options,
    const absl::flat_hash_map<std::string, std::vector<double>>& numbers) {
  absl::flat_hash_map<std::string, HostTensor> bound;
  for (const auto& [name, values] : numbers) {
    const onnx::ValueInfoProto* input = FindInput(file, name);
    if (input == nullptr || !input->type().has_tensor_type()) {
      return RefuseInput(
          name,
          "is no tensor among the model's inputs; name one of them "
          "with `--bound INPUT=NUMBERS`");
    }
    HostTensor& tensor = bound[name];
    ASSIGN_OR_RETURN(tensor.dtype,
                     DTypeFromOnnx(input->type().tensor_type().elem_type()));
    ASSIGN_OR_RETURN(tensor.shape,
                     ShapeFor(name, DeclaredSizes(*input, options),
                              static_cast<int64_t>(values.size())));
    tensor.numbers = values;
  }
  return bound;
}

}  // namespace gpupool::engine::onnx_import
