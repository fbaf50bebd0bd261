#include "engine/data/label_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {

uint64_t LabelFacts::numbers() const {
  uint64_t count = 1;
  for (int64_t dimension : shape) count *= static_cast<uint64_t>(dimension);
  return count;
}

uint32_t LabelFacts::class_count() const {
  if (!whole || !(minimum >= 0 && maximum < kMaxClasses)) return 0;
  return static_cast<uint32_t>(maximum) + 1;
}

LabelFacts SummarizeLabels(std::vector<int64_t> shape,
                           absl::Span<const float> labels) {
  LabelFacts facts;
  facts.shape = std::move(shape);
  facts.whole = true;
  const auto [least, most] = std::minmax_element(labels.begin(), labels.end());
  facts.minimum = *least;
  facts.maximum = *most;
  // Class numbers are whole, and small enough to be exact as floats.
  for (float label : labels) {
    if (label != std::floor(label) || std::abs(label) > kMaxClasses) {
      facts.whole = false;
      break;
    }
  }
  return facts;
}

void ToProto(const LabelFacts& facts, v1::LabelFacts* message) {
  message->mutable_shape()->Add(facts.shape.begin(), facts.shape.end());
  message->set_whole(facts.whole);
  message->set_minimum(facts.minimum);
  message->set_maximum(facts.maximum);
}

LabelFacts LabelFactsOf(const v1::Dataset& dataset) {
  if (dataset.has_labels()) {
    const v1::LabelFacts& labels = dataset.labels();
    return {{labels.shape().begin(), labels.shape().end()},
            labels.whole(),
            labels.minimum(),
            labels.maximum()};
  }
  LabelFacts facts;
  // A count of classes says that labels are 0 .. classes - 1. Otherwise nothing
  // is known, and NaN makes every check of the range fail.
  facts.whole = dataset.classes() > 0;
  facts.maximum = facts.whole ? dataset.classes() - 1.0
                              : std::numeric_limits<double>::quiet_NaN();
  facts.minimum = facts.whole ? 0 : facts.maximum;
  return facts;
}

}  // namespace gpupool::engine
