#include "engine/data/batch.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"

namespace gpupool::engine {

void GatherFeatures(const Table& table, absl::Span<const uint32_t> rows,
                    absl::Span<float> features) {
  const uint64_t row_features = table.row_features;
  GPUPOOL_CHECK(features.size() >= rows.size() * row_features);
  float* out = features.data();
  for (uint32_t row : rows) {
    std::memcpy(out, table.features.data() + row * row_features,
                row_features * sizeof(float));
    out += row_features;
  }
  std::fill(out, features.data() + features.size(), 0.0f);
}

void GatherClasses(const Table& table, absl::Span<const uint32_t> rows,
                   absl::Span<int64_t> classes) {
  GPUPOOL_CHECK(classes.size() >= rows.size());
  GPUPOOL_CHECK(table.classes.size() == table.rows);
  for (size_t i = 0; i < rows.size(); ++i) classes[i] = table.classes[rows[i]];
  std::fill(classes.begin() + rows.size(), classes.end(), 0);
}

void GatherLabels(const Table& table, absl::Span<const uint32_t> rows,
                  absl::Span<float> labels) {
  GPUPOOL_CHECK(labels.size() >= rows.size());
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = table.labels[rows[i]];
  std::fill(labels.begin() + rows.size(), labels.end(), 0.0f);
}

}  // namespace gpupool::engine
