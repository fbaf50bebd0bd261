#include "engine/data/label_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/types/span.h"
#include "engine/data/column.h"
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

// Reads the labels as floats: the facts do not depend on the stored type.
LabelFacts SummarizeLabels(const Column& labels) {
  LabelFacts facts;
  facts.shape = labels.shape;
  facts.whole = true;
  facts.minimum = std::numeric_limits<double>::infinity();
  facts.maximum = -facts.minimum;
  ConvertOnce(labels, [&facts](uint64_t, absl::Span<const float> chunk) {
    for (const float label : chunk) {
      facts.minimum = std::min<double>(facts.minimum, label);
      facts.maximum = std::max<double>(facts.maximum, label);
      // Class numbers are whole, and small enough to be exact as floats.
      facts.whole = facts.whole && label == std::floor(label) &&
                    std::abs(label) <= kMaxClasses;
    }
    return true;
  });
  return facts;
}

void ToProto(const LabelFacts& facts, v1::LabelFacts* message) {
  message->mutable_shape()->Add(facts.shape.begin(), facts.shape.end());
  message->set_whole(facts.whole);
  message->set_minimum(facts.minimum);
  message->set_maximum(facts.maximum);
}

LabelFacts FromProto(const v1::LabelFacts& message) {
  return {{message.shape().begin(), message.shape().end()},
          message.whole(),
          message.minimum(),
          message.maximum()};
}

LabelFacts LabelFactsOf(const v1::Dataset& dataset) {
  if (dataset.has_labels()) return FromProto(dataset.labels());
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
