// Copies chosen rows of a table into the input buffers of a program. The table
// is in memory, so a batch costs one pass over its own bytes, and a separate
// thread for the next batch would gain nothing. Pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/data/table.h"

namespace gpupool::engine {

// Copies the features of the rows. `features` has at least rows.size() *
// table.row_features elements; those after the rows are set to zero. Every row
// must be below table.rows.
void GatherFeatures(const Table& table, absl::Span<const uint32_t> rows,
                    absl::Span<float> features);

// Copies labels as class numbers. Every label must be a whole number
// (LabelFacts::whole). `classes` has at least rows.size() * table.row_labels
// elements; the rest is set to zero.
void GatherClasses(const Table& table, absl::Span<const uint32_t> rows,
                   absl::Span<int64_t> classes);

// Copies labels as floating-point numbers, otherwise as GatherClasses.
void GatherLabels(const Table& table, absl::Span<const uint32_t> rows,
                  absl::Span<float> labels);

}  // namespace gpupool::engine
