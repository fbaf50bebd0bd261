// Copies chosen rows of a table into the input buffers of a program. The
// table is in memory, so a batch costs one pass over its own bytes; a thread
// that prepares the next batch would not pay. Pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/data/table.h"

namespace gpupool::engine {

// features: rows.size() * table.row_features elements at least; what lies
// beyond the rows is set to zero. Every row must be below table.rows.
void GatherFeatures(const Table& table, absl::Span<const uint32_t> rows,
                    absl::Span<float> features);

// classes and labels: rows.size() * table.row_labels elements at least, the
// rest set to zero.
//
// As class numbers; every label must be a whole number (LabelFacts::whole).
void GatherClasses(const Table& table, absl::Span<const uint32_t> rows,
                   absl::Span<int64_t> classes);

// As numbers.
void GatherLabels(const Table& table, absl::Span<const uint32_t> rows,
                  absl::Span<float> labels);

}  // namespace gpupool::engine
