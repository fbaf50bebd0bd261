#include "engine/import/onnx/file/wire_check.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::onnx_import {
namespace {

// The messages of onnx.proto that hold other messages or many numbers.
enum class Kind : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kFunction,
  kTraining,
  kValueInfo,
  kType,
  kTypeOfTensor,   // TypeProto.Tensor and SparseTensor
  kTypeOfElement,  // TypeProto.Sequence and Optional
  kTypeOfMap,
  kTensorShape,
  kAnnotation,
  kLeaf,  // only strings and single numbers
};

struct Field {
  uint32_t number;
  Kind kind;
};

// Returns the fields that hold messages, with their numbers in onnx.proto.
absl::Span<const Field> MessageFields(Kind kind) {
  static constexpr Field kModel[] = {{7, Kind::kGraph},
                                     {8, Kind::kLeaf},
                                     {14, Kind::kLeaf},
                                     {20, Kind::kTraining},
                                     {25, Kind::kFunction}};
  static constexpr Field kGraph[] = {
      {1, Kind::kNode},       {5, Kind::kTensor},     {15, Kind::kSparseTensor},
      {11, Kind::kValueInfo}, {12, Kind::kValueInfo}, {13, Kind::kValueInfo},
      {14, Kind::kAnnotation}};
  static constexpr Field kNode[] = {{5, Kind::kAttribute}};
  static constexpr Field kAttribute[] = {
      {5, Kind::kTensor}, {6, Kind::kGraph},        {22, Kind::kSparseTensor},
      {14, Kind::kType},  {10, Kind::kTensor},      {11, Kind::kGraph},
      {15, Kind::kType},  {23, Kind::kSparseTensor}};
  static constexpr Field kTensor[] = {{3, Kind::kLeaf}, {13, Kind::kLeaf}};
  static constexpr Field kSparse[] = {{1, Kind::kTensor}, {2, Kind::kTensor}};
  static constexpr Field kFunction[] = {{7, Kind::kNode}, {9, Kind::kLeaf}};
  static constexpr Field kTraining[] = {
      {1, Kind::kGraph}, {2, Kind::kGraph}, {3, Kind::kLeaf}, {4, Kind::kLeaf}};
  static constexpr Field kValueInfo[] = {{2, Kind::kType}};
  static constexpr Field kType[] = {{1, Kind::kTypeOfTensor},
                                    {4, Kind::kTypeOfElement},
                                    {5, Kind::kTypeOfMap},
                                    {9, Kind::kTypeOfElement},
                                    {8, Kind::kTypeOfTensor}};
  static constexpr Field kTypeOfTensor[] = {{2, Kind::kTensorShape}};
  static constexpr Field kTypeOfElement[] = {{1, Kind::kType}};
  static constexpr Field kTypeOfMap[] = {{2, Kind::kType}};
  static constexpr Field kTensorShape[] = {{1, Kind::kLeaf}};
  static constexpr Field kAnnotation[] = {{2, Kind::kLeaf}};
  switch (kind) {
    case Kind::kModel:
      return kModel;
    case Kind::kGraph:
      return kGraph;
    case Kind::kNode:
      return kNode;
    case Kind::kAttribute:
      return kAttribute;
    case Kind::kTensor:
      return kTensor;
    case Kind::kSparseTensor:
      return kSparse;
    case Kind::kFunction:
      return kFunction;
    case Kind::kTraining:
      return kTraining;
    case Kind::kValueInfo:
      return kValueInfo;
    case Kind::kType:
      return kType;
    case Kind::kTypeOfTensor:
      return kTypeOfTensor;
    case Kind::kTypeOfElement:
      return kTypeOfElement;
    case Kind::kTypeOfMap:
      return kTypeOfMap;
    case Kind::kTensorShape:
      return kTensorShape;
    case Kind::kAnnotation:
      return kAnnotation;
    case Kind::kLeaf:
      return {};
  }
  return {};
}

// Upper bounds of the memory that protobuf takes for one of each.
constexpr uint64_t kMessageCost = 320;
constexpr uint64_t kStringCost = 64;
constexpr uint64_t kNumberCost = 32;  // also for unknown fields
constexpr uint64_t kBaseCost = uint64_t{256} << 20;

absl::Status Malformed() {
  return absl::InvalidArgumentError(
      "the bytes are not an ONNX model: the file is truncated or of another "
      "format");
}

class Walker {
 public:
  explicit Walker(absl::string_view bytes)
      : budget_(kBaseCost + 4 * bytes.size()) {}

  absl::Status Walk(absl::string_view bytes, Kind kind, int depth) {
    if (depth > kMaxMessageDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("messages nest deeper than ", kMaxMessageDepth,
                       " levels, the limit for an ONNX model"));
    }
    while (!bytes.empty()) {
      uint64_t tag = 0;
      if (!TakeVarint(bytes, tag) || tag >> 32 != 0 || tag >> 3 == 0) {
        return Malformed();
      }
      RETURN_IF_ERROR(Field(bytes, static_cast<uint32_t>(tag), kind, depth));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Field(absl::string_view& bytes, uint32_t tag, Kind kind,
                     int depth) {
    uint64_t number = 0;
    // The low three bits are the wire type: 0 is a varint, 1 and 5 have a fixed
    // width, and 2 is a message, a string or packed numbers.
    switch (tag & 7) {
      case 0:
        if (!TakeVarint(bytes, number)) return Malformed();
        return Spend(kNumberCost);
      case 1:
      case 5: {
        const size_t width = (tag & 7) == 1 ? 8 : 4;
        if (bytes.size() < width) return Malformed();
        bytes.remove_prefix(width);
        return Spend(kNumberCost);
      }
      case 2:
        break;
      default:
        return Malformed();
    }
    if (!TakeVarint(bytes, number) || number > bytes.size()) {
      return Malformed();
    }
    const absl::string_view content = bytes.substr(0, number);
    bytes.remove_prefix(number);
    for (const auto& field : MessageFields(kind)) {
      if (field.number != tag >> 3) continue;
      RETURN_IF_ERROR(Spend(kMessageCost));
      return Walk(content, field.kind, depth + 1);
    }
    // A packed varint of one byte becomes up to 8 bytes. raw_data and floats
    // keep their size.
    const bool packed_varints =
        (kind == Kind::kTensor &&
         (tag >> 3 == 1 || tag >> 3 == 5 || tag >> 3 == 7 || tag >> 3 == 11)) ||
        (kind == Kind::kAttribute && tag >> 3 == 8);
    return Spend(kStringCost + content.size() * (packed_varints ? 8 : 1));
  }

  absl::Status Spend(uint64_t cost) {
    if (cost <= budget_) {
      budget_ -= cost;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "the model would take far more memory than its file has bytes: it "
        "holds too many small parts");
  }

  uint64_t budget_;
};

}  // namespace

bool TakeVarint(absl::string_view& bytes, uint64_t& number) {
  number = 0;
  // A varint of 64 bits has at most 10 bytes.
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    number |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

absl::Status CheckWire(absl::string_view bytes) {
  if (bytes.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model file has ", bytes.size(), " bytes; the limit is ",
        kMaxFileBytes, ": save it with external data"));
  }
  return Walker(bytes).Walk(bytes, Kind::kModel, 0);
}

}  // namespace gpupool::engine::onnx_import
