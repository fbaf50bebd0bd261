#include "server/serving/text/text_labels.h"

#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

// Returns the same bits for equal numbers, and for all that are NaN.
uint64_t BitsOf(double number) {
  if (std::isnan(number)) number = std::numeric_limits<double>::quiet_NaN();
  if (number == 0) number = 0;  // of -0
  return std::bit_cast<uint64_t>(number);
}

template <typename Map, typename Key>
size_t PlaceIn(const Map& map, const Key& key, size_t otherwise) {
  const auto found = map.find(key);
  return found == map.end() ? otherwise : found->second;
}

}  // namespace

absl::StatusOr<TextLabels> TextLabels::Create(
    const v1::TextProgram::Node& node) {
  if (node.tables_size() != 3) {
    return engine::Refuse("has ", node.tables_size(), " tables instead of 3");
  }
  TextLabels labels;
  ASSIGN_OR_RETURN(labels.keys_, ViewConstant(node.tables(0)));
  ASSIGN_OR_RETURN(labels.values_, ViewConstant(node.tables(1)));
  ASSIGN_OR_RETURN(const TextTensor other, ViewConstant(node.tables(2)));
  if (labels.keys_.size() != labels.values_.size() || other.size() != 1 ||
      other.type != labels.values_.type) {
    return engine::Refuse(
        "has ", labels.keys_.size(), " keys, ", labels.values_.size(),
        " values and ", other.size(),
        " defaults; it needs as many values as keys, and one default "
        "of their type");
  }
  for (size_t i = 0; i < labels.keys_.texts.size(); ++i) {
    labels.texts_[labels.keys_.texts[i]] = i;
  }
  for (size_t i = 0; i < labels.keys_.integers.size(); ++i) {
    labels.integers_[labels.keys_.integers[i]] = i;
  }
  for (size_t i = 0; i < labels.keys_.floats.size(); ++i) {
    labels.floats_[BitsOf(labels.keys_.floats[i])] = i;
  }
  other.Visit([&](const auto& list) {
    ListLike(list, labels.values_).push_back(list[0]);
  });
  return labels;
}

size_t TextLabels::Find(absl::string_view key) const {
  return PlaceIn(texts_, key, values_.size() - 1);
}

size_t TextLabels::Find(int64_t key) const {
  return PlaceIn(integers_, key, values_.size() - 1);
}

size_t TextLabels::Find(double key) const {
  return PlaceIn(floats_, BitsOf(key), values_.size() - 1);
}

absl::StatusOr<TextTensor> TextLabels::Run(const TextTensor& tensor,
                                           TextMemory& memory) const {
  if (tensor.kind() != keys_.kind()) {
    return engine::Refuse("takes ", v1::DataType_Name(keys_.type), ", and got ",
                          v1::DataType_Name(tensor.type));
  }
  RETURN_IF_ERROR(memory.TakeElements(tensor.size()));
  TextTensor result;
  result.type = values_.type;
  result.shape = tensor.shape;
  values_.Visit([&](const auto& values) {
    auto& to = ListLike(values, result);
    tensor.Visit([&](const auto& keys) {
      to.reserve(keys.size());
      for (const auto& key : keys) to.push_back(values[Find(key)]);
    });
  });
  return result;
}

}  // namespace gpupool::server
