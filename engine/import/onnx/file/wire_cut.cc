#include "engine/import/onnx/file/wire_cut.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/import/onnx/file/external_files.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/file/wire_check.h"

namespace gpupool::engine::onnx_import {
namespace {

// The wire type of messages, strings and packed numbers.
constexpr uint64_t kLengthDelimited = 2;

// Takes a varint that CheckWire accepted. Should the mapped file have changed
// since, nothing is left.
uint64_t TakeChecked(absl::string_view& bytes) {
  uint64_t number = 0;
  if (!TakeVarint(bytes, number)) bytes = {};
  return number;
}

void AddVarint(uint64_t number, std::string& out) {
  for (; number >= 0x80; number >>= 7) {
    out.push_back(static_cast<char>(number | 0x80));
  }
  out.push_back(static_cast<char>(number));
}

// A field of a message on the wire.
struct WireField {
  uint64_t tag = 0;
  absl::string_view whole;    // with tag and length
  absl::string_view content;  // of length-delimited fields
  uint64_t number = 0;        // of varints

  bool Is(int field) const {
    return tag == (static_cast<uint64_t>(field) << 3 | kLengthDelimited);
  }
};

// Takes the next field of a message that CheckWire accepted.
WireField TakeField(absl::string_view& bytes) {
  WireField field;
  const absl::string_view begin = bytes;
  field.tag = TakeChecked(bytes);
  size_t skipped = 0;
  switch (field.tag & 7) {
    case 0:
      field.number = TakeChecked(bytes);
      break;
    case 1:
      skipped = 8;
      break;
    case 5:
      skipped = 4;
      break;
    default:
      skipped = TakeChecked(bytes);
      field.content = bytes.substr(0, skipped);
  }
  bytes.remove_prefix(std::min(skipped, bytes.size()));
  field.whole = begin.substr(0, begin.size() - bytes.size());
  return field;
}

void AddMessage(uint64_t tag, absl::string_view content, std::string& out) {
  AddVarint(tag, out);
  AddVarint(content.size(), out);
  absl::StrAppend(&out, content);
}

class Cutter {
 public:
  explicit Cutter(absl::string_view model) : model_(model) {}

  std::string CutModel() const {
    return Rewrite(model_, onnx::ModelProto::kGraphFieldNumber,
                   &Cutter::CutGraph);
  }

 private:
  std::string CutGraph(absl::string_view graph) const {
    return Rewrite(graph, onnx::GraphProto::kInitializerFieldNumber,
                   &Cutter::CutTensor);
  }
  std::string CutTensor(absl::string_view tensor) const;

  // Returns the message with `cut` applied to each field of that number.
  std::string Rewrite(absl::string_view message, int number,
                      std::string (Cutter::*cut)(absl::string_view)
                          const) const {
    std::string out;
    while (!message.empty()) {
      const WireField field = TakeField(message);
      if (field.Is(number)) {
        AddMessage(field.tag, (this->*cut)(field.content), out);
      } else {
        absl::StrAppend(&out, field.whole);
      }
    }
    return out;
  }

  const absl::string_view model_;
};

// Returns whether elements of this type are copied as they are stored.
bool IsCopied(uint64_t data_type) {
  const int type = static_cast<int>(data_type);
  return type != onnx::TensorProto::BOOL && DTypeFromOnnx(type).ok() &&
         !IsWidened(type);
}

std::string Cutter::CutTensor(absl::string_view tensor) const {
  using Tensor = onnx::TensorProto;
  std::string out;
  absl::string_view data;
  uint64_t type = 0;
  bool plain = true;  // the data have one place, and that is here
  for (absl::string_view rest = tensor; !rest.empty();) {
    const WireField field = TakeField(rest);
    if (field.Is(Tensor::kRawDataFieldNumber)) {
      plain = plain && data.empty();
      data = field.content;
      continue;
    }
    if (field.tag == Tensor::kDataTypeFieldNumber << 3) type = field.number;
    plain = plain && !field.Is(Tensor::kExternalDataFieldNumber) &&
            field.tag != Tensor::kDataLocationFieldNumber << 3;
    // Other fields with as much data are refused later.
    if (field.whole.size() >= kLeastCutBytes) plain = false;
    if (plain) absl::StrAppend(&out, field.whole);
  }
  if (!plain || data.size() < kLeastCutBytes || !IsCopied(type)) {
    return std::string(tensor);
  }
  Tensor reference;
  const auto add = [&reference](const char* key, std::string value) {
    auto& entry = *reference.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add("location", std::string(kModelLocation));
  add("offset", absl::StrCat(data.data() - model_.data()));
  add("length", absl::StrCat(data.size()));
  reference.set_data_location(Tensor::EXTERNAL);
  return out + reference.SerializeAsString();
}

}  // namespace

std::string CutInitializers(absl::string_view bytes) {
  return Cutter(bytes).CutModel();
}

}  // namespace gpupool::engine::onnx_import
