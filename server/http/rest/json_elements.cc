#include "server/http/rest/json_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::server {
namespace {

constexpr size_t kLengthBytes = sizeof(uint32_t);
// Bytes of a text that a message shows.
constexpr size_t kShownBytes = 40;
// Larger magnitudes round to infinity in FP32.
constexpr double kMostFloat = 0x1.fffffefffffffp127;

// Returns "[2,3]".
std::string ListText(absl::Span<const int64_t> sizes) {
  return absl::StrCat("[", absl::StrJoin(sizes, ","), "]");
}

// Returns the limits of a type: "integers from 0 to 255".
template <typename Integer>
std::string LimitsOf() {
  return absl::StrCat(
      "integers from ",
      static_cast<int64_t>(std::numeric_limits<Integer>::min()), " to ",
      static_cast<uint64_t>(std::numeric_limits<Integer>::max()));
}

// Multiplies the sizes. Returns false when one is negative or the product does
// not fit.
bool Product(absl::Span<const int64_t> sizes, uint64_t* product) {
  *product = 1;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(
                        *product, static_cast<uint64_t>(size), product)) {
      return false;
    }
  }
  return true;
}

absl::Status AboutInput(absl::string_view name, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("input '", name, "': ", text));
}

}  // namespace

void JsonElements::Open() {
  if (!fault_.empty()) return;
  if (counts_.size() >= kDeepestData) {
    return Fail(absl::StrCat("'data' has lists in lists, ", kDeepestData,
                             " deep, which is the most"));
  }
  if (leaf_depth_ != 0 && counts_.size() >= leaf_depth_) {
    return Fail(absl::StrCat("'data' has a list beside element ", size(),
                             "; it is one flat list, or lists in the shape of "
                             "the tensor"));
  }
  if (!counts_.empty()) ++counts_.back();
  counts_.push_back(0);
  if (sizes_.size() < counts_.size()) sizes_.push_back(-1);
}

void JsonElements::Close() {
  if (!fault_.empty()) return;
  int64_t& size = sizes_[counts_.size() - 1];
  const int64_t count = counts_.back();
  if (size != -1 && size != count) {
    return Fail(absl::StrCat("'data' has lists of ", size, " and of ", count,
                             " elements at the same depth, before element ",
                             this->size()));
  }
  size = count;
  counts_.pop_back();
}

void JsonElements::AddBool(bool value) { Add(Kind::kBool, value ? 1 : 0); }

void JsonElements::AddNegative(int64_t value) {
  Add(Kind::kNegative, static_cast<uint64_t>(value));
}

void JsonElements::AddUnsigned(uint64_t value) { Add(Kind::kUnsigned, value); }

void JsonElements::AddFloat(double value) {
  Add(Kind::kFloat, std::bit_cast<uint64_t>(value));
}

void JsonElements::AddText(absl::string_view value) {
  if (!Add(Kind::kText, texts_.size())) return;
  const uint32_t length = static_cast<uint32_t>(value.size());
  texts_.append(reinterpret_cast<const char*>(&length), kLengthBytes);
  texts_.append(value.data(), value.size());
}

void JsonElements::AddOther(absl::string_view what) {
  if (fault_.empty()) {
    Fail(absl::StrCat("element ", size(), " of 'data' is ", what));
  }
}

bool JsonElements::Add(Kind kind, uint64_t bits) {
  if (!fault_.empty()) return false;
  if (leaf_depth_ == 0) leaf_depth_ = counts_.size();
  if (leaf_depth_ != counts_.size()) {
    Fail(absl::StrCat("element ", size(),
                      " of 'data' stands beside a list; it "
                      "is one flat list, or lists in the shape of the tensor"));
    return false;
  }
  ++counts_.back();
  kinds_.push_back(kind);
  bits_.push_back(bits);
  return true;
}

void JsonElements::Fail(std::string fault) { fault_ = std::move(fault); }

absl::StatusOr<std::string> JsonElements::Pack(const Tensor& tensor) const {
  using Packer =
      absl::Status (JsonElements::*)(const Tensor&, std::string*) const;
  static constexpr std::pair<absl::string_view, Packer> kPackers[] = {
      {"BOOL", &JsonElements::PackBools},
      {"UINT8", &JsonElements::PackIntegers<uint8_t>},
      {"UINT16", &JsonElements::PackIntegers<uint16_t>},
      {"UINT32", &JsonElements::PackIntegers<uint32_t>},
      {"UINT64", &JsonElements::PackIntegers<uint64_t>},
      {"INT8", &JsonElements::PackIntegers<int8_t>},
      {"INT16", &JsonElements::PackIntegers<int16_t>},
      {"INT32", &JsonElements::PackIntegers<int32_t>},
      {"INT64", &JsonElements::PackIntegers<int64_t>},
      {"FP32", &JsonElements::PackFloats},
      {"FP64", &JsonElements::PackDoubles},
      {"BYTES", &JsonElements::PackTexts}};
  if (!fault_.empty()) return AboutInput(tensor.name, fault_);
  if (tensor.datatype == "FP16" || tensor.datatype == "BF16") {
    return AboutInput(
        tensor.name,
        absl::StrCat("JSON has no ", tensor.datatype,
                     "; send it as binary data, with binary_data_size"));
  }
  const absl::Status shape = CheckShape(tensor);
  if (!shape.ok()) return shape;
  for (const auto& [name, packer] : kPackers) {
    if (name != tensor.datatype) continue;
    std::string packed;
    const absl::Status status = (this->*packer)(tensor, &packed);
    if (!status.ok()) return status;
    return packed;
  }
  return AboutInput(
      tensor.name,
      absl::StrCat("datatype is '", tensor.datatype.substr(0, kShownBytes),
                   "'; it takes ",
                   absl::StrJoin(kPackers, ", ",
                                 [](std::string* out, const auto& row) {
                                   absl::StrAppend(out, row.first);
                                 }),
                   " and, as binary data, FP16 and BF16"));
}

absl::Status JsonElements::CheckShape(const Tensor& tensor) const {
  uint64_t elements = 0;
  if (!Product(tensor.shape, &elements)) {
    return AboutInput(tensor.name,
                      absl::StrCat("the shape ", ListText(tensor.shape),
                                   " has a size below 0, or is too large"));
  }
  if (elements != size()) {
    return AboutInput(
        tensor.name,
        absl::StrCat("'data' has ", size(), " elements, the shape ",
                     ListText(tensor.shape), " takes ", elements));
  }
  if (sizes_.size() > 1 && absl::MakeConstSpan(sizes_) != tensor.shape) {
    return AboutInput(
        tensor.name,
        absl::StrCat("'data' has lists in the shape ", ListText(sizes_),
                     ", the shape of the tensor is ", ListText(tensor.shape)));
  }
  return absl::OkStatus();
}

absl::Status JsonElements::Misfit(const Tensor& tensor, size_t index,
                                  absl::string_view takes) const {
  return AboutInput(tensor.name,
                    absl::StrCat("element ", index, " is ", TextOf(index), "; ",
                                 tensor.datatype, " takes ", takes));
}

std::string JsonElements::TextOf(size_t index) const {
  switch (kinds_[index]) {
    case Kind::kBool:
      return bits_[index] != 0 ? "true" : "false";
    case Kind::kNegative:
      return absl::StrCat(static_cast<int64_t>(bits_[index]));
    case Kind::kUnsigned:
      return absl::StrCat(bits_[index]);
    case Kind::kFloat:
      return absl::StrCat(std::bit_cast<double>(bits_[index]));
    case Kind::kText:
      return absl::StrCat("'", StringAt(index).substr(0, kShownBytes), "'");
  }
  return {};
}

absl::string_view JsonElements::StringAt(size_t index) const {
  uint32_t length = 0;
  std::memcpy(&length, texts_.data() + bits_[index], kLengthBytes);
  return absl::string_view(texts_).substr(bits_[index] + kLengthBytes, length);
}

absl::Status JsonElements::PackBools(const Tensor& tensor,
                                     std::string* out) const {
  out->resize(size());
  for (size_t i = 0; i < size(); ++i) {
    const bool fits = kinds_[i] == Kind::kBool ||
                      (kinds_[i] == Kind::kUnsigned && bits_[i] <= 1);
    if (!fits) return Misfit(tensor, i, "true, false, 1 and 0");
    (*out)[i] = static_cast<char>(bits_[i]);
  }
  return absl::OkStatus();
}

template <typename Integer>
bool JsonElements::ReadInteger(size_t index, Integer* value) const {
  using Limits = std::numeric_limits<Integer>;
  if (kinds_[index] == Kind::kUnsigned) {
    if (bits_[index] > static_cast<uint64_t>(Limits::max())) return false;
  } else if (kinds_[index] == Kind::kNegative) {
    if (static_cast<int64_t>(bits_[index]) <
        static_cast<int64_t>(Limits::min())) {
      return false;
    }
  } else {
    return false;
  }
  *value = static_cast<Integer>(bits_[index]);
  return true;
}

template <typename Integer>
absl::Status JsonElements::PackIntegers(const Tensor& tensor,
                                        std::string* out) const {
  out->resize(size() * sizeof(Integer));
  char* to = out->data();
  for (size_t i = 0; i < size(); ++i, to += sizeof(Integer)) {
    Integer value = 0;
    if (!ReadInteger(i, &value)) return Misfit(tensor, i, LimitsOf<Integer>());
    std::memcpy(to, &value, sizeof(value));
  }
  return absl::OkStatus();
}

bool JsonElements::ReadDouble(size_t index, double* value) const {
  switch (kinds_[index]) {
    case Kind::kBool:
      return false;
    case Kind::kNegative:
      // Answers have -0.0 as -0.
      *value = bits_[index] == 0
                   ? -0.0
                   : static_cast<double>(static_cast<int64_t>(bits_[index]));
      return true;
    case Kind::kUnsigned:
      *value = static_cast<double>(bits_[index]);
      return true;
    case Kind::kFloat:
      *value = std::bit_cast<double>(bits_[index]);
      return true;
    case Kind::kText:
      break;
  }
  const absl::string_view text = StringAt(index);
  if (text == "NaN") {
    *value = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "Infinity") {
    *value = std::numeric_limits<double>::infinity();
  } else if (text == "-Infinity") {
    *value = -std::numeric_limits<double>::infinity();
  } else {
    return false;
  }
  return true;
}

absl::Status JsonElements::PackFloats(const Tensor& tensor,
                                      std::string* out) const {
  constexpr float kLargest = std::numeric_limits<float>::max();
  out->resize(size() * sizeof(float));
  char* to = out->data();
  for (size_t i = 0; i < size(); ++i, to += sizeof(float)) {
    double value = 0;
    if (!ReadDouble(i, &value) ||
        (std::isfinite(value) && std::abs(value) > kMostFloat)) {
      return Misfit(tensor, i,
                    "numbers up to 3.4028235e+38, \"NaN\", \"Infinity\" and "
                    "\"-Infinity\"");
    }
    if (std::isfinite(value)) {
      value = std::clamp<double>(value, -kLargest, kLargest);
    }
    const float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, sizeof(narrow));
  }
  return absl::OkStatus();
}

absl::Status JsonElements::PackDoubles(const Tensor& tensor,
                                       std::string* out) const {
  out->resize(size() * sizeof(double));
  char* to = out->data();
  for (size_t i = 0; i < size(); ++i, to += sizeof(double)) {
    double value = 0;
    if (!ReadDouble(i, &value)) {
      return Misfit(tensor, i,
                    "numbers, \"NaN\", \"Infinity\" and \"-Infinity\"");
    }
    std::memcpy(to, &value, sizeof(value));
  }
  return absl::OkStatus();
}

absl::Status JsonElements::PackTexts(const Tensor& tensor,
                                     std::string* out) const {
  for (size_t i = 0; i < size(); ++i) {
    if (kinds_[i] != Kind::kText) return Misfit(tensor, i, "texts");
  }
  *out = texts_;
  return absl::OkStatus();
}

}  // namespace gpupool::server
