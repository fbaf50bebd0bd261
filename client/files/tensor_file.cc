#include "client/files/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/files/float_bytes.h"
#include "client/text/text_file.h"

namespace gpupool::client {
namespace {

using Json = nlohmann::json;

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr size_t kLimitBytes = size_t{1} << 30;
constexpr size_t kMostDimensions = 32;
// The type of texts, whose elements have several sizes.
constexpr absl::string_view kTexts = "BYTES";

// NumPy has no bfloat16.
struct TypeRow {
  const char* name;
  const char* numpy;
  uint64_t bytes;
};
constexpr TypeRow kTypes[] = {
    {"FP32", "<f4", 4},   {"FP64", "<f8", 8},  {"INT32", "<i4", 4},
    {"INT64", "<i8", 8},  {"UINT8", "|u1", 1}, {"BOOL", "|b1", 1},
    {"INT8", "|i1", 1},   {"FP16", "<f2", 2},  {"BF16", "", 2},
    {"UINT16", "<u2", 2}, {"INT16", "<i2", 2}, {"UINT32", "<u4", 4},
    {"UINT64", "<u8", 8},
};

const TypeRow* FindType(absl::string_view name) {
  const auto* row = std::find_if(
      std::begin(kTypes), std::end(kTypes),
      [&](const TypeRow& candidate) { return name == candidate.name; });
  return row == std::end(kTypes) ? nullptr : row;
}

absl::Status BadNpy(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy file: ", what));
}

// Returns "complex64 ('<c8')" for the type of an array.
std::string NumpyName(absl::string_view type) {
  const std::string quoted = absl::StrCat("'", type, "'");
  if (type.size() != 3 || !absl::ascii_isdigit(type[2])) return quoted;
  const int bits = (type[2] - '0') * 8;
  for (const char* name : {"uint", "int", "float", "complex"}) {
    if (name[0] != type[1]) continue;
    return absl::StrCat(name, bits,
                        type[0] == '>' ? " in big-endian order" : "", " (",
                        quoted, ")");
  }
  return quoted;
}

// Returns the text of a key's value, up to the comma or bracket that ends it.
absl::string_view ValueOf(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return {};
  absl::string_view value = header.substr(at + key.size() + 3);
  value = absl::StripLeadingAsciiWhitespace(value);
  const char end = absl::StartsWith(value, "(") ? ')' : ',';
  value = value.substr(0, value.find(end));
  absl::ConsumePrefix(&value, "(");
  return absl::StripAsciiWhitespace(value);
}

absl::StatusOr<std::vector<int64_t>> ParseShape(absl::string_view text) {
  std::vector<int64_t> shape;
  for (absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 0 ||
        shape.size() >= kMostDimensions) {
      return BadNpy("its shape is not readable");
    }
    shape.push_back(size);
  }
  return shape;
}

// Returns the bytes of the elements. If they exceed `limit`, returns some
// number above `limit`.
uint64_t TotalBytes(const std::vector<int64_t>& shape, uint64_t element_bytes,
                    uint64_t limit) {
  if (std::count(shape.begin(), shape.end(), 0) > 0) return 0;
  uint64_t total = element_bytes;
  for (int64_t size : shape) {
    if (total > limit / static_cast<uint64_t>(size)) return limit + 1;
    total *= static_cast<uint64_t>(size);
  }
  return total;
}

// Returns the shape of nested arrays. Flatten reports arrays of different
// lengths.
std::vector<int64_t> ShapeOf(const Json& json) {
  std::vector<int64_t> shape;
  const Json* node = &json;
  while (node->is_array() && shape.size() < kMostDimensions) {
    shape.push_back(static_cast<int64_t>(node->size()));
    if (node->empty()) break;
    node = &node->front();
  }
  return shape;
}

bool Flatten(const Json& json, absl::Span<const int64_t> shape,
             std::vector<Json>& numbers) {
  if (shape.empty()) {
    numbers.push_back(json);
    return json.is_number() || json.is_boolean() || json.is_string();
  }
  if (!json.is_array() || json.size() != static_cast<size_t>(shape[0])) {
    return false;
  }
  return std::all_of(json.begin(), json.end(), [&](const Json& part) {
    return Flatten(part, shape.subspan(1), numbers);
  });
}

template <typename T>
bool Append(const Json& json, std::string& bytes) {
  T value{};
  if constexpr (std::is_same_v<T, bool>) {
    if (json.is_boolean()) {
      value = json.get<bool>();
    } else {
      value = json.get<double>() != 0;
    }
  } else if constexpr (std::is_integral_v<T>) {
    // Numbers from 0 are unsigned.
    if (json.is_number_unsigned()) {
      const auto number = json.get<uint64_t>();
      if (!std::in_range<T>(number)) return false;
      value = static_cast<T>(number);
    } else {
      if (!json.is_number_integer()) return false;
      const auto number = json.get<int64_t>();
      if (!std::in_range<T>(number)) return false;
      value = static_cast<T>(number);
    }
  } else {
    if (!json.is_number()) return false;
    value = static_cast<T>(json.get<double>());
  }
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return true;
}

// Appends a text with its length in 4 bytes before it.
bool AppendText(const Json& json, std::string& bytes) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  const auto length = static_cast<uint32_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.append(text);
  return true;
}

bool AppendAs(absl::string_view type, const Json& json, std::string& bytes) {
  if (type == kTexts) return AppendText(json, bytes);
  if (type == "FP32") return Append<float>(json, bytes);
  if (type == "FP64") return Append<double>(json, bytes);
  if (type == "INT32") return Append<int32_t>(json, bytes);
  if (type == "INT64") return Append<int64_t>(json, bytes);
  if (type == "UINT8") return Append<uint8_t>(json, bytes);
  if (type == "INT8") return Append<int8_t>(json, bytes);
  if (type == "UINT16") return Append<uint16_t>(json, bytes);
  if (type == "INT16") return Append<int16_t>(json, bytes);
  if (type == "UINT32") return Append<uint32_t>(json, bytes);
  if (type == "UINT64") return Append<uint64_t>(json, bytes);
  if (type == "BOOL") return Append<bool>(json, bytes);
  return false;
}

template <typename T>
Json NumberAt(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

Json ElementAt(absl::string_view type, const char* at) {
  if (type == "FP64") return NumberAt<double>(at);
  if (type == "INT32") return NumberAt<int32_t>(at);
  if (type == "INT64") return NumberAt<int64_t>(at);
  if (type == "UINT8") return NumberAt<uint8_t>(at);
  if (type == "INT8") return NumberAt<int8_t>(at);
  if (type == "UINT16") return NumberAt<uint16_t>(at);
  if (type == "INT16") return NumberAt<int16_t>(at);
  if (type == "UINT32") return NumberAt<uint32_t>(at);
  if (type == "UINT64") return NumberAt<uint64_t>(at);
  if (type == "BOOL") return *at != 0;
  if (const size_t bytes = FloatBytes(type)) {
    float number = 0;
    ReadFloats(type, {at, bytes}, absl::MakeSpan(&number, 1));
    return number;
  }
  return NumberAt<float>(at);
}

// Takes the text at the front of the bytes. Bytes that are cut off give "".
Json TextAt(const Tensor& tensor, const char*& at) {
  const char* const end = tensor.bytes.data() + tensor.bytes.size();
  uint32_t length = 0;
  if (static_cast<size_t>(end - at) < sizeof(length)) return "";
  std::memcpy(&length, at, sizeof(length));
  at += sizeof(length);
  const size_t bytes = std::min<size_t>(length, static_cast<size_t>(end - at));
  std::string text(at, bytes);
  at += bytes;
  return text;
}

Json Nested(const Tensor& tensor, size_t dimension, const char*& at) {
  if (dimension == tensor.shape.size()) {
    if (tensor.data_type == kTexts) return TextAt(tensor, at);
    Json element = ElementAt(tensor.data_type, at);
    at += ElementBytes(tensor.data_type);
    return element;
  }
  Json array = Json::array();
  for (int64_t i = 0; i < tensor.shape[dimension]; ++i) {
    array.push_back(Nested(tensor, dimension + 1, at));
  }
  return array;
}

}  // namespace

uint64_t ElementBytes(absl::string_view data_type) {
  const TypeRow* row = FindType(data_type);
  return row == nullptr ? 0 : row->bytes;
}

absl::StatusOr<Tensor> ParseNpy(absl::string_view file) {
  if (!absl::StartsWith(file, absl::string_view(kMagic, kMagicBytes)) ||
      file.size() < kMagicBytes + 6) {
    return BadNpy("it does not begin as one");
  }
  // The header's length has 2 bytes in version 1 and 4 in later ones.
  const bool is_short = file[kMagicBytes] == 1;
  uint32_t length = 0;
  std::memcpy(&length, file.data() + kMagicBytes + 2, is_short ? 2 : 4);
  const size_t begin = kMagicBytes + (is_short ? 4 : 6);
  if (length > file.size() - begin) return BadNpy("its header is cut off");
  const absl::string_view header = file.substr(begin, length);
  absl::string_view type = ValueOf(header, "descr");
  absl::ConsumePrefix(&type, "'");
  absl::ConsumeSuffix(&type, "'");
  const auto* row = std::find_if(
      std::begin(kTypes), std::end(kTypes), [&](const TypeRow& candidate) {
        return !type.empty() && (type == candidate.numpy);
      });
  if (row == std::end(kTypes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "arrays of ", NumpyName(type.substr(0, 20)),
        " cannot be sent; convert it to float16, float32, float64, an integer "
        "type or bool in little-endian order, as in x.astype(numpy.int32)"));
  }
  if (ValueOf(header, "fortran_order") != "False") {
    return BadNpy("it is in Fortran order; save numpy.ascontiguousarray of it");
  }
  absl::StatusOr<std::vector<int64_t>> shape =
      ParseShape(ValueOf(header, "shape"));
  if (!shape.ok()) return shape.status();
  const absl::string_view data = file.substr(begin + length);
  // TotalBytes stays above the limit when the product overflows, so a hostile
  // shape cannot wrap around to the right size.
  if (TotalBytes(*shape, row->bytes, data.size()) != data.size()) {
    return BadNpy(absl::StrCat("it holds ", data.size(),
                               " bytes of data, which is not what its shape [",
                               absl::StrJoin(*shape, ","), "] needs"));
  }
  return Tensor{row->name, *std::move(shape), std::string(data)};
}

std::string NpyText(const Tensor& tensor) {
  const TypeRow* row = FindType(tensor.data_type);
  // A bfloat16 is written as a 16-bit integer, because NumPy has no bfloat16.
  const absl::string_view type =
      row == nullptr || *row->numpy == '\0' ? "<u2" : row->numpy;
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(tensor.shape, ", "),
                   tensor.shape.size() == 1 ? ",), }" : "), }");
  // The data begin at a multiple of 64 bytes.
  header.append(63 - (kMagicBytes + 4 + header.size()) % 64, ' ');
  header += '\n';
  std::string text(kMagic, kMagicBytes);
  text += {1, 0};
  const auto length = static_cast<uint16_t>(header.size());
  text.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return text + header + tensor.bytes;
}

absl::StatusOr<Tensor> ParseJsonTensor(absl::string_view json,
                                       absl::string_view data_type) {
  const Json parsed = Json::parse(json.begin(), json.end(), nullptr,
                                  /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    return absl::InvalidArgumentError("not JSON");
  }
  Tensor tensor{std::string(data_type), ShapeOf(parsed), ""};
  std::vector<Json> numbers;
  if (!Flatten(parsed, tensor.shape, numbers)) {
    return absl::InvalidArgumentError(
        "not nested arrays of numbers or strings with equal lengths");
  }
  for (const Json& number : numbers) {
    if (AppendAs(data_type, number, tensor.bytes)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(number.dump(), " cannot be sent as ", data_type));
  }
  return tensor;
}

std::string JsonText(const Tensor& tensor) {
  const char* at = tensor.bytes.data();
  // Texts may have bytes that are no UTF-8.
  return Nested(tensor, 0, at)
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<double> Numbers(const Tensor& tensor) {
  std::vector<double> numbers;
  const uint64_t step = ElementBytes(tensor.data_type);
  for (size_t at = 0; at < tensor.bytes.size(); at += step) {
    const Json element = ElementAt(tensor.data_type, tensor.bytes.data() + at);
    numbers.push_back(element.is_boolean()
                          ? static_cast<double>(element.get<bool>())
                          : element.get<double>());
  }
  return numbers;
}

absl::StatusOr<Tensor> ReadTensorFile(const std::string& path,
                                      absl::string_view data_type) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, kLimitBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<Tensor> tensor = absl::EndsWith(path, ".json")
                                      ? ParseJsonTensor(*text, data_type)
                                      : ParseNpy(*text);
  if (tensor.ok()) return tensor;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", tensor.status().message()));
}

}  // namespace gpupool::client
