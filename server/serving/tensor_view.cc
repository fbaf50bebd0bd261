#include "server/serving/tensor_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "server/serving/data_type.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMaxRowBytes = uint64_t{1} << 40;

const TensorFormat* FindFormat(absl::Span<const TensorFormat> formats,
                               absl::string_view name) {
  for (const TensorFormat& format : formats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::string NamesText(absl::Span<const TensorFormat> formats) {
  return absl::StrJoin(formats, ", ", [](std::string* out, const auto& format) {
    absl::StrAppend(out, "'", format.name, "'");
  });
}

// The rows of a tensor whose shape is the format's but for the batch.
int64_t RowsOf(const TensorFormat& format, const TensorView& input) {
  return format.batched ? input.shape[0] : 1;
}

absl::Status CheckShape(absl::string_view model, const TensorFormat& format,
                        uint32_t max_batch_size, const TensorView& input) {
  const size_t batch_rank = format.batched ? 1 : 0;
  const bool same_row =
      input.shape.size() == format.row_shape.size() + batch_rank &&
      std::equal(format.row_shape.begin(), format.row_shape.end(),
                 input.shape.begin() + batch_rank);
  if (!same_row) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected shape for input '", input.name, "' for model ", model,
        ": expected ", ShapeText(format), ", got ", ShapeText(input.shape)));
  }
  const int64_t rows = RowsOf(format, input);
  if (rows < 1 || rows > static_cast<int64_t>(max_batch_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference request batch-size must be <= ", max_batch_size,
        " and >= 1 for model ", model, ", got shape ", ShapeText(input.shape),
        " for input '", input.name, "'; send fewer rows in one request"));
  }
  return absl::OkStatus();
}

absl::Status CheckInput(absl::string_view model, const TensorFormat& format,
                        uint32_t max_batch_size, const TensorView& input) {
  const absl::string_view wanted = DataTypeName(format.data_type);
  if (input.data_type != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference input '", input.name, "' data-type is '", input.data_type,
        "', but model ", model, " expects '", wanted, "'"));
  }
  RETURN_IF_ERROR(CheckShape(model, format, max_batch_size, input));
  // Both factors are bounded by the checks above: no overflow.
  const uint64_t expected =
      static_cast<uint64_t>(RowsOf(format, input)) * format.row_bytes;
  if (input.bytes.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected total byte size ", input.bytes.size(), " for input '",
        input.name, "' for model ", model, ", expecting ", expected, " for ",
        wanted, " ", ShapeText(input.shape)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<int64_t> TensorFormat::Shape(int64_t rows) const {
  std::vector<int64_t> shape;
  if (batched) shape.push_back(rows);
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  return shape;
}

absl::StatusOr<TensorFormat> MakeTensorFormat(const v1::TensorSpec& spec) {
  TensorFormat format;
  format.name = spec.name();
  format.data_type = spec.data_type();
  format.row_bytes = ElementBytes(spec.data_type());
  const std::string what = absl::StrCat("tensor '", spec.name(), "' of shape ",
                                        ShapeText(spec.shape()));
  if (format.row_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": no data type"));
  }
  format.batched = !spec.shape().empty() && spec.shape(0) == -1;
  for (int i = format.batched ? 1 : 0; i < spec.shape_size(); ++i) {
    const int64_t size = spec.shape(i);
    if (size < 1 ||
        static_cast<uint64_t>(size) >
            kMaxRowBytes / std::max<uint64_t>(1, format.row_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": dimension ", i, " is below 1 or makes a row too large"));
    }
    format.row_shape.push_back(size);
    format.row_bytes *= static_cast<uint64_t>(size);
  }
  return format;
}

absl::StatusOr<CheckedInputs> CheckInputs(
    absl::string_view model, absl::Span<const TensorFormat> formats,
    uint32_t max_batch_size, absl::Span<const TensorView> inputs) {
  CheckedInputs checked;
  checked.bytes.resize(formats.size());
  std::vector<const TensorView*> found(formats.size(), nullptr);
  for (const TensorView& input : inputs) {
    const TensorFormat* format = FindFormat(formats, input.name);
    if (format == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected inference input '", input.name, "' for model ", model,
          "; it takes ", NamesText(formats)));
    }
    const size_t index = format - formats.data();
    if (found[index] != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", input.name, "' already exists in request"));
    }
    RETURN_IF_ERROR(CheckInput(model, *format, max_batch_size, input));
    found[index] = &input;
    checked.bytes[index] = input.bytes;
    const uint32_t rows = static_cast<uint32_t>(RowsOf(*format, input));
    if (checked.rows != 0 && checked.rows != rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", input.name, "' has ", rows,
                       " rows, another input of the request ", checked.rows));
    }
    checked.rows = rows;
  }
  if (inputs.size() != formats.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", formats.size(), " inputs but got ", inputs.size(),
        " inputs for model ", model, "; it takes ", NamesText(formats)));
  }
  return checked;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

std::string ShapeText(const TensorFormat& format) {
  return ShapeText(format.Shape(-1));
}

}  // namespace gpupool::server
