#include "server/serving/tensor/tensor_view.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/bytes_elements.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/held_elements.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMaxRowBytes = uint64_t{1} << 40;
constexpr int64_t kUnknownSize = -1;

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

// Returns the rows of a tensor that has the format's shape apart from the
// batch.
int64_t RowsOf(const TensorFormat& format, const TensorView& input) {
  return format.batched ? input.shape[0] : 1;
}

// Checks the shape against the declared one, with -1 as any size, and the
// number of rows.
absl::Status CheckShape(const ModelInputs& model, const TensorFormat& format,
                        const TensorView& input) {
  const std::vector<int64_t> declared = format.DeclaredShape();
  const bool same =
      input.shape.size() == declared.size() &&
      std::equal(declared.begin(), declared.end(), input.shape.begin(),
                 [](int64_t taken, int64_t came) {
                   return taken == -1 || taken == came;
                 });
  if (!same) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected shape for input '", input.name, "' for model ", model.label,
        ": expected ", ShapeText(format), ", got ", ShapeText(input.shape)));
  }
  const int64_t rows = RowsOf(format, input);
  if (rows < 1 || rows > static_cast<int64_t>(model.max_batch_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference request batch-size must be <= ", model.max_batch_size,
        " and >= 1 for model ", model.label, ", got shape ",
        ShapeText(input.shape), " for input '", input.name,
        "'; send fewer rows in one request"));
  }
  return absl::OkStatus();
}

absl::Status CheckType(absl::string_view model, const TensorFormat& format,
                       const TensorView& input) {
  const absl::string_view wanted = DataTypeName(format.data_type);
  if (input.data_type != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference input '", input.name, "' data-type is '", input.data_type,
        "', but model ", model, " expects '", wanted, "'"));
  }
  return absl::OkStatus();
}

// Reads the sizes of the input's dimensions. Known sizes must agree.
absl::Status TakeSizes(const ModelInputs& model, const TensorFormat& format,
                       const TensorView& input, CheckedInputs& checked) {
  for (const TensorFormat::Variable& variable : format.variable) {
    if (variable.dimension < 0) continue;
    const auto dimension = static_cast<size_t>(variable.dimension);
    const int64_t size = input.shape[variable.axis + (format.batched ? 1 : 0)];
    ASSIGN_OR_RETURN(checked.served[dimension],
                     SizeToServe(model.label, input.name,
                                 model.dimensions[dimension], size));
    int64_t& known = checked.sizes[dimension];
    if (known != kUnknownSize && known != size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", input.name, "' has ", size, " for dimension '",
          model.dimensions[dimension].name, "', another place of the request ",
          known, "; send the same in all"));
    }
    known = size;
  }
  return absl::OkStatus();
}

// Returns "past=3, sequence=1", the sizes from which the dimension follows.
std::string TermsText(const ModelInputs& model,
                      const TensorFormat::Variable& variable,
                      absl::Span<const int64_t> sizes) {
  return absl::StrJoin(variable.terms, ", ", [&](std::string* text, int term) {
    const auto at = static_cast<size_t>(term);
    absl::StrAppend(text, model.dimensions[at].name, "=", sizes[at]);
  });
}

// Checks the sizes that follow from those of the served dimensions, which must
// all be known.
absl::Status CheckDerivedSizes(const ModelInputs& model,
                               const TensorFormat& format,
                               absl::Span<const int64_t> sizes,
                               const TensorView& input) {
  for (const TensorFormat::Variable& variable : format.variable) {
    if (!variable.size.has_value()) continue;
    const size_t axis = variable.axis + (format.batched ? 1 : 0);
    const absl::StatusOr<int64_t> size = variable.SizeFor(sizes);
    if (size.ok() && *size == input.shape[axis]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", input.name, "' for model ", model.label, " has ",
        input.shape[axis], " for dimension ", axis, ", which must be ",
        variable.size->text(), ": ",
        size.ok() ? absl::StrCat(*size) : std::string(size.status().message()),
        " for ", TermsText(model, variable, sizes)));
  }
  return absl::OkStatus();
}

// Returns the number of elements. InvalidArgument if it has no 64 bits.
absl::StatusOr<uint64_t> ElementsOf(absl::string_view model,
                                    const TensorView& input) {
  uint64_t elements = 1;
  for (const int64_t size : input.shape) {
    if (size >= 0 && !__builtin_mul_overflow(
                         elements, static_cast<uint64_t>(size), &elements)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", input.name, "' for model ", model, " has the shape ",
        ShapeText(input.shape), ", which is too large"));
  }
  return elements;
}

// Checks that BYTES are as many elements as the shape has.
absl::Status CheckTexts(absl::string_view model, const TensorView& input) {
  ASSIGN_OR_RETURN(const uint64_t elements, ElementsOf(model, input));
  const absl::Status read =
      ReadBytesElements({reinterpret_cast<const char*>(input.bytes.data()),
                         input.bytes.size()},
                        elements)
          .status();
  if (read.ok()) return read;
  return absl::InvalidArgumentError(absl::StrCat(
      "input '", input.name, "' for model ", model, " ", read.message()));
}

// Checks the sizes and the byte count of an input of a model of texts, whose
// dimensions may have any size up to a largest one.
absl::Status CheckOpenInput(absl::string_view model, const TensorFormat& format,
                            const TensorView& input) {
  for (const TensorFormat::Variable& variable : format.variable) {
    const size_t axis = variable.axis + (format.batched ? 1 : 0);
    if (input.shape[axis] <= format.row_shape[variable.axis]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input '", input.name, "' for model ", model, " has ",
                     input.shape[axis], " for dimension ", axis,
                     "; the limit is ", format.row_shape[variable.axis]));
  }
  if (format.data_type == v1::STRING) return CheckTexts(model, input);
  ASSIGN_OR_RETURN(const uint64_t elements, ElementsOf(model, input));
  const uint64_t element_bytes = ElementBytes(format.data_type);
  if (elements == input.bytes.size() / element_bytes &&
      input.bytes.size() % element_bytes == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unexpected total byte size ", input.bytes.size(), " for input '",
      input.name, "' for model ", model, ", expecting ", elements,
      " elements of ", element_bytes, " bytes"));
}

// Checks the byte count, which protects the copy into the slot.
absl::Status CheckBytes(absl::string_view model, const TensorFormat& format,
                        absl::Span<const int64_t> sizes,
                        const TensorView& input) {
  const absl::string_view wanted = DataTypeName(format.data_type);
  // No overflow: earlier checks bound both factors.
  const uint64_t expected =
      static_cast<uint64_t>(RowsOf(format, input)) * format.SentRowBytes(sizes);
  if (input.bytes.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected total byte size ", input.bytes.size(), " for input '",
        input.name, "' for model ", model, ", expecting ", expected, " for ",
        wanted, " ", ShapeText(input.shape)));
  }
  return absl::OkStatus();
}

// Checks the elements of a BOOL input. What another byte means would depend on
// the operator: one tests for zero, one counts.
absl::Status CheckBools(absl::string_view model, const TensorFormat& format,
                        const TensorView& input) {
  if (format.data_type != v1::BOOL) return absl::OkStatus();
  const auto wrong = std::find_if(input.bytes.begin(), input.bytes.end(),
                                  [](std::byte b) { return b > std::byte{1}; });
  if (wrong == input.bytes.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "element ", wrong - input.bytes.begin(), " of input '", input.name,
      "' for model ", model, " is the byte ", static_cast<int>(*wrong),
      "; an element of type BOOL is 0 or 1"));
}

// Checks that programs can compute with all elements.
absl::Status CheckHoldable(absl::string_view model, const TensorFormat& format,
                           const TensorView& input) {
  const auto found = FindUnholdable(format.data_type, input.bytes);
  if (!found.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "element ", found->index, " of input '", input.name, "' for model ",
      model, " is ", found->number, "; an element of type ",
      DataTypeName(format.data_type), " is computed as ",
      DataTypeName(HeldType(format.data_type)), ", so send numbers up to ",
      std::numeric_limits<int64_t>::max()));
}

// Adds the varying axes, counted without the batch. A name must be one of the
// dimensions; without a name the program decides the size.
absl::Status AddVariable(const v1::TensorSpec& spec,
                         absl::Span<const SizedDimension> dimensions,
                         TensorFormat& format) {
  for (const v1::VariableDimension& variable : spec.variable()) {
    auto& added = format.variable.emplace_back();
    added.axis = variable.axis() - (format.batched ? 1 : 0);
    const auto find = [&](const std::string& name) -> absl::StatusOr<int> {
      for (size_t i = 0; i < dimensions.size(); ++i) {
        if (dimensions[i].name == name) return static_cast<int>(i);
      }
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", spec.name(), "' has the dimension '", name,
                       "', of which the model has no sizes"));
    };
    if (!variable.name().empty()) {
      ASSIGN_OR_RETURN(added.dimension, find(variable.name()));
    } else if (!variable.size().empty()) {
      ASSIGN_OR_RETURN(added.size,
                       engine::SizeExpression::Parse(variable.size()));
      for (const std::string& name : added.size->names()) {
        ASSIGN_OR_RETURN(added.terms.emplace_back(), find(name));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool TensorFormat::Variable::Follows(int served) const {
  return dimension == served ||
         std::find(terms.begin(), terms.end(), served) != terms.end();
}

absl::StatusOr<int64_t> TensorFormat::Variable::SizeFor(
    absl::Span<const int64_t> sizes) const {
  if (dimension >= 0) return sizes[static_cast<size_t>(dimension)];
  std::vector<int64_t> used;
  for (const int term : terms) used.push_back(sizes[static_cast<size_t>(term)]);
  ASSIGN_OR_RETURN(const int64_t value, size->Value(used));
  if (value >= 0) return value;
  return absl::InvalidArgumentError(absl::StrCat("it is ", value));
}

std::vector<int64_t> TensorFormat::Shape(int64_t rows) const {
  std::vector<int64_t> shape;
  if (batched) shape.push_back(rows);
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  return shape;
}

std::vector<int64_t> TensorFormat::DeclaredShape() const {
  std::vector<int64_t> shape = Shape(-1);
  for (const Variable& one : variable) shape[one.axis + (batched ? 1 : 0)] = -1;
  return shape;
}

std::vector<int64_t> TensorFormat::RowShape(
    absl::Span<const int64_t> sizes) const {
  std::vector<int64_t> shape = row_shape;
  for (const Variable& one : variable) {
    if (!one.IsKnown() || sizes.empty()) continue;
    const absl::StatusOr<int64_t> size = one.SizeFor(sizes);
    // Never above the largest, which bounds the bytes of a row.
    if (size.ok()) shape[one.axis] = std::min(*size, row_shape[one.axis]);
  }
  return shape;
}

uint64_t TensorFormat::RowBytes(absl::Span<const int64_t> sizes) const {
  if (variable.empty() || sizes.empty()) return row_bytes;
  uint64_t bytes = ElementBytes(HeldType(data_type));
  for (int64_t size : RowShape(sizes)) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

uint64_t TensorFormat::SentRowBytes(absl::Span<const int64_t> sizes) const {
  // A format without a type has no bytes.
  const uint64_t held =
      std::max<uint64_t>(1, ElementBytes(HeldType(data_type)));
  return RowBytes(sizes) / held * ElementBytes(data_type);
}

absl::StatusOr<TensorFormat> MakeTensorFormat(
    const v1::TensorSpec& spec, absl::Span<const SizedDimension> dimensions) {
  TensorFormat format;
  format.name = spec.name();
  format.data_type = spec.data_type();
  // An empty text has its length only.
  format.row_bytes = spec.data_type() == v1::STRING
                         ? kBytesElementHead
                         : ElementBytes(HeldType(spec.data_type()));
  const std::string what = absl::StrCat("tensor '", spec.name(), "' of shape ",
                                        ShapeText(spec.shape()));
  if (format.row_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": no data type"));
  }
  std::vector<int64_t> shape(spec.shape().begin(), spec.shape().end());
  for (const v1::VariableDimension& variable : spec.variable()) {
    if (variable.axis() >= shape.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " has no dimension ", variable.axis()));
    }
    // Counts with the largest size, so that row_bytes is the bound of a row.
    shape[variable.axis()] = variable.maximum();
  }
  format.batched = !shape.empty() && shape[0] == -1;
  RETURN_IF_ERROR(AddVariable(spec, dimensions, format));
  for (size_t i = format.batched ? 1 : 0; i < shape.size(); ++i) {
    // Divides the limit, because a product of sizes from a model's file could
    // overflow.
    const int64_t size = shape[i];
    if (size < 0 ||
        static_cast<uint64_t>(size) >
            kMaxRowBytes / std::max<uint64_t>(1, format.row_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": dimension ", i, " is below 0 or makes a row too large"));
    }
    format.row_shape.push_back(size);
    format.row_bytes *= static_cast<uint64_t>(size);
  }
  return format;
}

absl::StatusOr<CheckedInputs> CheckInputs(const ModelInputs& model,
                                          absl::Span<const TensorView> inputs) {
  const absl::Span<const TensorFormat> formats = model.formats;
  CheckedInputs checked;
  checked.sizes.resize(model.dimensions.size(), kUnknownSize);
  checked.served.resize(model.dimensions.size(), kUnknownSize);
  checked.bytes.resize(formats.size());
  std::vector<const TensorView*> found(formats.size(), nullptr);
  for (const TensorView& input : inputs) {
    const TensorFormat* format = FindFormat(formats, input.name);
    if (format == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected inference input '", input.name, "' for model ",
          model.label, "; it takes ", NamesText(formats)));
    }
    const size_t index = format - formats.data();
    if (found[index] != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", input.name, "' already exists in request"));
    }
    RETURN_IF_ERROR(CheckType(model.label, *format, input));
    RETURN_IF_ERROR(CheckShape(model, *format, input));
    RETURN_IF_ERROR(TakeSizes(model, *format, input, checked));
    found[index] = &input;
    checked.bytes[index] = input.bytes;
    const uint32_t rows = static_cast<uint32_t>(RowsOf(*format, input));
    if (checked.rows != 0 && checked.rows != rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", input.name, "' has ", engine::Counted(rows, "row"),
          ", another input of the request ", checked.rows));
    }
    checked.rows = rows;
  }
  // All names are known and none came twice, so equal numbers mean that no
  // input is missing.
  if (inputs.size() != formats.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", formats.size(), " inputs but got ", inputs.size(),
        " inputs for model ", model.label, "; it takes ", NamesText(formats)));
  }
  if (model.texts) {
    for (const TensorView* input : found) {
      checked.shapes.emplace_back(input->shape.begin(), input->shape.end());
    }
  }
  // A dimension in which no input varies has one size, which is 1.
  for (auto* sizes : {&checked.sizes, &checked.served}) {
    std::replace(sizes->begin(), sizes->end(), kUnknownSize, int64_t{1});
  }
  for (size_t i = 0; i < formats.size(); ++i) {
    // The order matters: CheckBytes multiplies sizes that all checks before it
    // have bounded.
    RETURN_IF_ERROR(
        CheckDerivedSizes(model, formats[i], checked.sizes, *found[i]));
    RETURN_IF_ERROR(
        model.texts
            ? CheckOpenInput(model.label, formats[i], *found[i])
            : CheckBytes(model.label, formats[i], checked.sizes, *found[i]));
    RETURN_IF_ERROR(CheckBools(model.label, formats[i], *found[i]));
    RETURN_IF_ERROR(CheckHoldable(model.label, formats[i], *found[i]));
  }
  return checked;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

std::string ShapeText(const TensorFormat& format) {
  return ShapeText(format.DeclaredShape());
}

}  // namespace gpupool::server
