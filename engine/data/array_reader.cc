#include "engine/data/array_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// LoadElement takes little-endian bytes as they are.
static_assert(std::endian::native == std::endian::little);

constexpr size_t kChunkElements = 16 << 10;

template <typename T>
T LoadElement(const char* bytes, bool big_endian) {
  char ordered[sizeof(T)];
  std::memcpy(ordered, bytes, sizeof(T));
  if (big_endian) std::reverse(ordered, ordered + sizeof(T));
  T value;
  std::memcpy(&value, ordered, sizeof(T));
  return value;
}

// Converts an IEEE 754 binary16 number. Exponent 0 marks subnormal numbers,
// exponent 31 infinities and NaN.
float HalfToFloat(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  float value;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return half >> 15 ? -value : value;
}

template <typename T>
void ConvertAs(const char* bytes, bool big_endian, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<float>(LoadElement<T>(bytes + i * sizeof(T), big_endian));
  }
}

void ConvertHalves(const char* bytes, bool big_endian, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = HalfToFloat(LoadElement<uint16_t>(bytes + i * 2, big_endian));
  }
}

void Convert(const char* bytes, const ArrayHeader& header,
             absl::Span<float> out) {
  const bool big = header.big_endian;
  switch (header.type) {
    case ElementType::kUint8:
      return ConvertAs<uint8_t>(bytes, big, out);
    case ElementType::kInt8:
      return ConvertAs<int8_t>(bytes, big, out);
    case ElementType::kUint16:
      return ConvertAs<uint16_t>(bytes, big, out);
    case ElementType::kInt16:
      return ConvertAs<int16_t>(bytes, big, out);
    case ElementType::kUint32:
      return ConvertAs<uint32_t>(bytes, big, out);
    case ElementType::kInt32:
      return ConvertAs<int32_t>(bytes, big, out);
    case ElementType::kUint64:
      return ConvertAs<uint64_t>(bytes, big, out);
    case ElementType::kInt64:
      return ConvertAs<int64_t>(bytes, big, out);
    case ElementType::kFloat16:
      return ConvertHalves(bytes, big, out);
    case ElementType::kFloat32:
      return ConvertAs<float>(bytes, big, out);
    case ElementType::kFloat64:
      return ConvertAs<double>(bytes, big, out);
  }
}

// Puts the name of the array in front of an error.
absl::Status Prefixed(const char* what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(what, ": ", status.message()));
}

// Reads all elements and checks that nothing follows them.
absl::Status ReadWhole(const OpenArray& array, absl::Span<float> out) {
  RETURN_IF_ERROR(ReadElements(*array.stream, array.header, out));
  return ExpectEnd(*array.stream);
}

}  // namespace

uint64_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
      return 1;
    case ElementType::kUint16:
    case ElementType::kInt16:
    case ElementType::kFloat16:
      return 2;
    case ElementType::kUint32:
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kUint64:
    case ElementType::kInt64:
    case ElementType::kFloat64:
      return 8;
  }
  return 0;
}

// Works in chunks, so a large array needs no second copy of its bytes.
absl::Status ReadElements(ByteStream& stream, const ArrayHeader& header,
                          absl::Span<float> out) {
  const size_t element_bytes = ElementBytes(header.type);
  std::vector<char> chunk(std::min(out.size(), kChunkElements) * element_bytes);
  for (size_t done = 0; done < out.size();) {
    absl::Span<float> part = out.subspan(done, kChunkElements);
    RETURN_IF_ERROR(ReadExactly(
        stream, absl::MakeSpan(chunk).first(part.size() * element_bytes)));
    Convert(chunk.data(), header, part);
    // Checked after the conversion: a finite double may be infinite as a float.
    const auto bad = std::find_if(part.begin(), part.end(),
                                  [](float x) { return !std::isfinite(x); });
    if (bad != part.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "element ", done + static_cast<size_t>(bad - part.begin()), " is ",
          *bad, ", which is not a finite float32"));
    }
    done += part.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> TableFromArrays(const OpenArray& features,
                                      const OpenArray& labels,
                                      const ReadLimits& limits) {
  const std::vector<int64_t>& shape = features.header.shape;
  const std::vector<int64_t>& label_shape = labels.header.shape;
  if (label_shape[0] != shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "labels: shape [", absl::StrJoin(label_shape, ","),
        "] does not fit features of shape [", absl::StrJoin(shape, ","),
        "]; a label for each of the ", shape[0], " rows is needed"));
  }
  Table table;
  table.rows = static_cast<uint64_t>(shape[0]);
  table.feature_shape.assign(shape.begin() + 1, shape.end());
  if (table.feature_shape.empty()) table.feature_shape = {1};
  ASSIGN_OR_RETURN(table.row_features,
                   CheckedElementCount(table.feature_shape));
  std::vector<int64_t> row_label(label_shape.begin() + 1, label_shape.end());
  ASSIGN_OR_RETURN(table.row_labels, CheckedElementCount(row_label));
  // [rows, 1] means one number for each row, as [rows] does.
  if (table.row_labels == 1) row_label.clear();
  // The size is checked before memory is taken: shapes come from the file.
  RETURN_IF_ERROR(CheckedTableBytes(table.rows, table.row_features,
                                    table.row_labels, limits)
                      .status());
  table.features.resize(table.rows * table.row_features);
  table.labels.resize(table.rows * table.row_labels);
  RETURN_IF_ERROR(Prefixed(
      "features", ReadWhole(features, absl::MakeSpan(table.features))));
  RETURN_IF_ERROR(
      Prefixed("labels", ReadWhole(labels, absl::MakeSpan(table.labels))));
  table.label_facts = SummarizeLabels(std::move(row_label), table.labels);
  return table;
}

}  // namespace gpupool::engine
