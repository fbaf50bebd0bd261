#include "engine/data/batch.h"

#include <algorithm>
#include <vector>

#include "engine/base/check.h"

namespace gpupool::engine {

namespace {

// Copies rows of `width` numbers as T and fills the rest with zeros.
template <typename T>
void GatherRows(const std::vector<float>& from, uint64_t width,
                absl::Span<const uint32_t> rows, absl::Span<T> to) {
  GPUPOOL_CHECK(to.size() >= rows.size() * width);
  T* out = to.data();
  for (uint32_t row : rows) {
    out = std::copy_n(from.data() + row * width, width, out);
  }
  std::fill(out, to.data() + to.size(), T{0});
}

}  // namespace

void GatherFeatures(const Table& table, absl::Span<const uint32_t> rows,
                    absl::Span<float> features) {
  GatherRows(table.features, table.row_features, rows, features);
}

void GatherClasses(const Table& table, absl::Span<const uint32_t> rows,
                   absl::Span<int64_t> classes) {
  GPUPOOL_CHECK(table.label_facts.whole);
  GatherRows(table.labels, table.row_labels, rows, classes);
}

void GatherLabels(const Table& table, absl::Span<const uint32_t> rows,
                  absl::Span<float> labels) {
  GatherRows(table.labels, table.row_labels, rows, labels);
}

}  // namespace gpupool::engine
