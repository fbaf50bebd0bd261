#include "client/files/onnx_locations.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpupool::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kDeepest = 64;

// The messages of onnx.proto on the path to a tensor's external data.
enum class Kind {
  kModel,
  kFunction,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kEntry,
};

struct Edge {
  Kind from;
  int field;
  Kind to;
};
constexpr Edge kEdges[] = {
    {Kind::kModel, 7, Kind::kGraph},
    {Kind::kModel, 25, Kind::kFunction},
    {Kind::kFunction, 7, Kind::kNode},
    {Kind::kGraph, 1, Kind::kNode},
    {Kind::kGraph, 5, Kind::kTensor},
    {Kind::kGraph, 15, Kind::kSparseTensor},
    {Kind::kNode, 5, Kind::kAttribute},
    {Kind::kAttribute, 5, Kind::kTensor},
    {Kind::kAttribute, 6, Kind::kGraph},
    {Kind::kAttribute, 10, Kind::kTensor},
    {Kind::kAttribute, 11, Kind::kGraph},
    {Kind::kAttribute, 22, Kind::kSparseTensor},
    {Kind::kAttribute, 23, Kind::kSparseTensor},
    {Kind::kSparseTensor, 1, Kind::kTensor},
    {Kind::kSparseTensor, 2, Kind::kTensor},
    {Kind::kTensor, 13, Kind::kEntry},
};

const Edge* FindEdge(Kind from, int field) {
  const auto* edge = std::find_if(
      std::begin(kEdges), std::end(kEdges), [&](const Edge& candidate) {
        return candidate.from == from && candidate.field == field;
      });
  return edge == std::end(kEdges) ? nullptr : edge;
}

bool LeadsDown(const std::string& location) {
  const std::vector<absl::string_view> parts = absl::StrSplit(location, '/');
  return std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

// Walks through the messages of one file.
class Walker {
 public:
  explicit Walker(absl::string_view bytes)
      : bytes_(bytes),
        stream_(reinterpret_cast<const uint8_t*>(bytes.data()),
                static_cast<int>(bytes.size())) {
    stream_.SetTotalBytesLimit(INT32_MAX);
  }

  // Walks through one message. Returns false if the bytes are not a message.
  bool Walk(Kind kind, int depth) {
    if (depth > kDeepest) return false;
    std::string key, value;
    while (const uint32_t tag = stream_.ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      const bool is_bytes = WireFormatLite::GetTagWireType(tag) ==
                            WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      const Edge* edge = is_bytes ? FindEdge(kind, field) : nullptr;
      if (edge != nullptr) {
        if (!WalkChild(edge->to, depth)) return false;
      } else if (kind == Kind::kEntry && is_bytes && field <= 2) {
        std::string& text = field == 1 ? key : value;
        if (!WireFormatLite::ReadBytes(&stream_, &text)) return false;
      } else if (!WireFormatLite::SkipField(&stream_, tag)) {
        return false;
      }
    }
    if (key == "location") locations_.insert(value);
    return stream_.ConsumedEntireMessage();
  }

  std::set<std::string>& locations() { return locations_; }

 private:
  bool WalkChild(Kind kind, int depth) {
    int length = 0;
    if (!stream_.ReadVarintSizeAsInt(&length)) return false;
    const auto limit = stream_.PushLimit(length);
    if (stream_.BytesUntilLimit() != length ||
        stream_.CurrentPosition() + length > static_cast<int>(bytes_.size())) {
      return false;
    }
    if (!Walk(kind, depth + 1)) return false;
    stream_.PopLimit(limit);
    return true;
  }

  const absl::string_view bytes_;
  CodedInputStream stream_;
  std::set<std::string> locations_;
};

}  // namespace

absl::StatusOr<std::set<std::string>> ExternalLocations(
    absl::string_view model) {
  if (model.size() > INT32_MAX) {
    return absl::InvalidArgumentError(
        "the file is larger than 2 GiB, the limit of ONNX files; save the "
        "model with external data");
  }
  Walker walker(model);
  if (!walker.Walk(Kind::kModel, 0)) {
    return absl::InvalidArgumentError("the file is not an ONNX model");
  }
  for (const std::string& location : walker.locations()) {
    if (LeadsDown(location)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the model keeps data in '", location,
                     "', which is outside of the model's folder; save it with "
                     "its data beside it"));
  }
  return std::move(walker.locations());
}

}  // namespace gpupool::client
