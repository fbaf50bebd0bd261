#include "engine/model/spec/layer_names.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

absl::Status CheckLayerName(absl::string_view name) {
  bool fine = name.size() <= kMaxLayerNameBytes && name != "input";
  for (char c : name) {
    fine = fine && (absl::ascii_isalnum(c) || c == '_' || c == '.');
  }
  if (fine) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer name '", name, "': use at most ", kMaxLayerNameBytes,
                   " letters, digits, '_' and '.', and not the name 'input'"));
}

// Marks which outputs are read.
class References {
 public:
  explicit References(const v1::ModelSpec& spec)
      : spec_(spec), read_(static_cast<size_t>(spec.layers_size())) {}

  absl::Status Check() {
    for (int i = 0; i < spec_.layers_size(); ++i) {
      const std::string name = LayerName(spec_.layers(i), i);
      RETURN_IF_ERROR(CheckLayerName(name));
      if (positions_.emplace(name, i).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two layers are named '", name, "'"));
    }
    for (int i = 0; i < spec_.layers_size(); ++i) {
      RETURN_IF_ERROR(CheckLayer(i));
    }
    return CheckRead();
  }

 private:
  absl::Status CheckLayer(int position) {
    const v1::Layer& layer = spec_.layers(position);
    if (!layer.input().empty()) {
      RETURN_IF_ERROR(Mark(position, "reads", layer.input()));
    } else if (position > 0) {
      read_[static_cast<size_t>(position) - 1] = true;
    }
    if (!layer.has_add()) return absl::OkStatus();
    return Mark(position, "adds", layer.add().from());
  }

  // Marks the output of layer `from`, which the layer at `position` reads.
  absl::Status Mark(int position, absl::string_view verb,
                    const std::string& from) {
    if (from == "input") return absl::OkStatus();
    const auto found = positions_.find(from);
    if (found != positions_.end() && found->second < position) {
      read_[static_cast<size_t>(found->second)] = true;
      return absl::OkStatus();
    }
    const absl::string_view why =
        found == positions_.end() ? "but no earlier layer has that name"
        : found->second == position
            ? "but that is its own name"
            : "but that is a later layer: move it in front";
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", LayerName(spec_.layers(position), position),
                     "': ", verb, " the output of '", from, "', ", why));
  }

  absl::Status CheckRead() const {
    for (size_t i = 0; i + 1 < read_.size(); ++i) {
      if (read_[i]) continue;
      const int position = static_cast<int>(i);
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", LayerName(spec_.layers(position), position),
          "': no later layer reads its output; name it in the `input` of a "
          "later layer or in the `from` of an `add`, or remove the layer"));
    }
    return absl::OkStatus();
  }

  const v1::ModelSpec& spec_;
  absl::flat_hash_map<std::string, int> positions_;
  std::vector<bool> read_;  // by position
};

}  // namespace

std::string LayerKindName(const v1::Layer& layer) {
  if (layer.kind_case() == v1::Layer::KIND_NOT_SET) return "layer";
  return layer.GetDescriptor()->FindFieldByNumber(layer.kind_case())->name();
}

std::string LayerName(const v1::Layer& layer, int position) {
  if (!layer.name().empty()) return layer.name();
  return absl::StrCat(LayerKindName(layer), "_", position);
}

bool ReadsTokens(const v1::ModelSpec& spec) {
  for (int i = 0; i < spec.layers_size(); ++i) {
    const v1::Layer& layer = spec.layers(i);
    const bool reads_input =
        layer.input().empty() ? i == 0 : layer.input() == "input";
    if (reads_input && layer.has_embedding()) return true;
  }
  return false;
}

absl::Status CheckReferences(const v1::ModelSpec& spec) {
  return References(spec).Check();
}

}  // namespace gpupool::engine
