// The form of a dataset's rows, by which two datasets of one job are compared.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/data/table.h"

namespace gpupool::v1 {
class Dataset;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The shape of one row of a named array.
struct ArrayForm {
  std::string name;
  std::vector<int64_t> shape;
};

// Shapes of one row's features and label.
struct RowForm {
  std::string dataset;  // its name, for messages
  std::vector<int64_t> features;
  std::vector<int64_t> labels;
  // Arrays by name. With inputs, `features` says nothing; with targets,
  // `labels` says nothing.
  std::vector<ArrayForm> inputs;
  std::vector<ArrayForm> targets;
};

RowForm FormOf(const v1::Dataset& dataset);
RowForm FormOf(const std::string& name, const Table& table);

// Returns whether both shapes have the same count of numbers, and the same
// dimensions other than 1 if both have several. Their products must fit 64
// bits.
bool ShapesAgree(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// Checks that the rows of `other` can take the place of those of `one`: arrays
// of the same names, each with the same numbers, in the same shape if both have
// several dimensions other than 1. INVALID_ARGUMENT names both datasets and the
// difference.
absl::Status CheckSameForm(const RowForm& one, const RowForm& other);

// Checks that text columns of both datasets have the same categories in the
// same order, so that numbers mean the same, that CSV files treat missing cells
// alike, that recordings have the same rate, and that texts have the same
// tokenizer. INVALID_ARGUMENT names both datasets and the difference.
absl::Status CheckSameCategories(const v1::Dataset& one,
                                 const v1::Dataset& other);

// Checks that no column of `one` is at another place of a row of `other`, by
// the names of headers and keys. Columns with names of their own may have any
// place, as those of files without a header. INVALID_ARGUMENT names both
// datasets and the columns.
absl::Status CheckSameOrder(const v1::Dataset& one, const v1::Dataset& other);

}  // namespace gpupool::engine
