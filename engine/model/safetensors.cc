#include "engine/model/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr int kMaxDepth = 3;  // the file, a tensor, its shape

struct DTypeCode {
  DType dtype;
  absl::string_view code;
};
constexpr DTypeCode kCodes[] = {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, onnx, code, ...) \
  {DType::dtype, code},
#include "engine/base/dtype_table.inc"
};

std::string CodeOf(DType dtype) {
  for (const DTypeCode& row : kCodes) {
    if (row.dtype == dtype) return std::string(row.code);
  }
  GPUPOOL_CHECK(false && "every dtype has a code");
  return "";
}

std::optional<DType> DTypeOf(const Json& code) {
  if (!code.is_string()) return std::nullopt;
  for (const DTypeCode& row : kCodes) {
    if (code.get_ref<const std::string&>() == std::string(row.code)) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

absl::Status Broken(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what));
}

absl::Status BrokenTensor(const std::string& name, absl::string_view what) {
  return Broken(absl::StrCat("tensor \"", absl::CHexEscape(name.substr(0, 100)),
                             "\": ", what));
}

// Parses the header as JSON. Refuses deep nesting and repeated names, which the
// library would accept silently.
absl::StatusOr<Json> ParseHeader(absl::string_view text) {
  std::set<std::string> names;
  bool sound = true;
  auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) sound = false;
    if (event == Json::parse_event_t::key && depth == 1) {
      sound = names.insert(parsed.get<std::string>()).second && sound;
    }
    return sound;
  };
  Json header = Json::parse(text.begin(), text.end(), check, false);
  if (!sound) return Broken("the header is too deep or repeats a name");
  if (!header.is_object()) return Broken("the header is not a JSON object");
  return header;
}

absl::StatusOr<std::vector<int64_t>> Numbers(const Json& tensor,
                                             const char* key) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is not an array"));
  }
  std::vector<int64_t> numbers;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() > uint64_t{INT64_MAX}) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, " holds something else than whole numbers >= 0"));
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

// Parses one entry of the header and checks it against the data.
absl::StatusOr<TensorView> ParseTensor(const std::string& name,
                                       const Json& tensor,
                                       absl::string_view data) {
  if (!tensor.is_object()) return BrokenTensor(name, "is not an object");
  TensorView view;
  view.facts.name = name;
  const std::optional<DType> dtype =
      tensor.contains("dtype") ? DTypeOf(tensor["dtype"]) : std::nullopt;
  if (!dtype) return BrokenTensor(name, "dtype is missing or not known");
  view.facts.dtype = *dtype;
  const auto dims = Numbers(tensor, "shape");
  if (!dims.ok()) return BrokenTensor(name, dims.status().message());
  auto shape = Shape::Create(*dims);
  if (!shape.ok()) return BrokenTensor(name, shape.status().message());
  view.facts.shape = *std::move(shape);
  const auto offsets = Numbers(tensor, "data_offsets");
  if (!offsets.ok()) return BrokenTensor(name, offsets.status().message());
  if (offsets->size() != 2) {
    return BrokenTensor(name, "data_offsets is not a pair");
  }
  const uint64_t begin = static_cast<uint64_t>((*offsets)[0]);
  const uint64_t end = static_cast<uint64_t>((*offsets)[1]);
  // In this order, so that end - begin cannot wrap.
  if (begin > end || end > data.size() || end - begin != view.facts.bytes()) {
    return BrokenTensor(
        name, absl::StrCat("data_offsets [", begin, ", ", end, "] do not fit ",
                           view.facts.bytes(), " bytes of ",
                           view.facts.shape.ToString(), " in a file with ",
                           data.size(), " bytes of data"));
  }
  view.bytes = data.substr(begin, end - begin);
  return view;
}

// Checks that the tensors tile the data in some order, as the format requires.
absl::Status CheckNoHoles(std::vector<TensorView>& tensors,
                          absl::string_view data) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView& a, const TensorView& b) {
              return a.bytes.data() < b.bytes.data();
            });
  const char* expected = data.data();
  for (const TensorView& tensor : tensors) {
    if (tensor.bytes.data() != expected) {
      return BrokenTensor(tensor.facts.name,
                          "its bytes overlap others or leave a hole");
    }
    expected += tensor.bytes.size();
  }
  if (expected != data.data() + data.size()) {
    return Broken("bytes behind the last tensor belong to none");
  }
  return absl::OkStatus();
}

}  // namespace

std::string SafetensorsHeader(const std::vector<TensorFacts>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (const TensorFacts& tensor : tensors) {
    GPUPOOL_CHECK(!header.contains(tensor.name));
    const auto dims = tensor.shape.dims();
    header[tensor.name] = {
        {"dtype", CodeOf(tensor.dtype)},
        {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
        {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  // Padding with spaces aligns the tensor bytes to 8 bytes.
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string result;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    result += static_cast<char>(text.size() >> 8 * i);
  }
  return result + text;
}

absl::StatusOr<std::vector<TensorView>> ParseSafetensors(
    absl::string_view file) {
  if (file.size() < kLengthBytes) return Broken("shorter than 8 bytes");
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i > 0; --i) {
    length = length << 8 | static_cast<uint8_t>(file[i - 1]);
  }
  if (length > kMaxSafetensorsHeaderBytes ||
      length > file.size() - kLengthBytes) {
    return Broken(absl::StrCat(
        "a header of ", length, " bytes is announced; the file has ",
        file.size(), " bytes and the limit is ", kMaxSafetensorsHeaderBytes));
  }
  ASSIGN_OR_RETURN(const Json header,
                   ParseHeader(file.substr(kLengthBytes, length)));
  const absl::string_view data = file.substr(kLengthBytes + length);
  std::vector<TensorView> tensors;
  for (const auto& [name, tensor] : header.items()) {
    // The writer's free text, which is no tensor.
    if (name == "__metadata__") continue;
    ASSIGN_OR_RETURN(TensorView view, ParseTensor(name, tensor, data));
    tensors.push_back(std::move(view));
  }
  RETURN_IF_ERROR(CheckNoHoles(tensors, data));
  return tensors;
}

}  // namespace gpupool::engine
