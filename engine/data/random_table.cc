#include "engine/data/random_table.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/data/column_buffer.h"
#include "engine/data/dataset_reader.h"
#include "engine/data/synthetic/synthetic_rows.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kSeed = 1;

// Returns a number of the range that labels have, which may be unknown.
float Known(double number) {
  return std::isfinite(number) ? static_cast<float>(number) : 0.0f;
}

// Adds columns of float32 in memory until the limit is reached.
class Maker {
 public:
  Maker(uint64_t rows, const ReadLimits& limits)
      : rows_(rows), limits_(limits) {}

  absl::StatusOr<Column> Features(v1::DataType type,
                                  std::vector<int64_t> shape) {
    ASSIGN_OR_RETURN(Column column, Empty(type, std::move(shape)));
    std::vector<float> numbers(rows_ * column.width);
    if (IsFloating(column.stored)) {
      for (float& number : numbers) number = random_.NextFloat();
    }
    RETURN_IF_ERROR(Fill(numbers, column));
    return column;
  }

  // Returns a column of these numbers, float32.
  absl::StatusOr<Column> Given(const std::vector<float>& numbers,
                               std::vector<int64_t> shape) {
    ASSIGN_OR_RETURN(Column column, Empty(v1::FLOAT32, std::move(shape)));
    RETURN_IF_ERROR(Fill(numbers, column));
    return column;
  }

  absl::StatusOr<Column> Labels(v1::DataType type, LabelFacts facts) {
    ASSIGN_OR_RETURN(Column column, Empty(type, facts.shape));
    const float ends[] = {Known(facts.minimum), Known(facts.maximum)};
    std::vector<float> numbers(rows_ * column.width);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = ends[i % 2];
    RETURN_IF_ERROR(Fill(numbers, column));
    column.facts = std::move(facts);
    return column;
  }

 private:
  // Returns a column without numbers, which is counted.
  absl::StatusOr<Column> Empty(v1::DataType type, std::vector<int64_t> shape) {
    Column column;
    column.stored = FromProto(type);
    column.rows = rows_;
    ASSIGN_OR_RETURN(column.width, CheckedElementCount(shape));
    column.shape = std::move(shape);
    row_bytes_ += column.row_bytes();
    RETURN_IF_ERROR(CheckedTableBytes(rows_, row_bytes_, limits_).status());
    return column;
  }

  static absl::Status Fill(const std::vector<float>& numbers, Column& column) {
    ColumnBuffer buffer;
    const uint64_t bytes = numbers.size() * sizeof(float);
    RETURN_IF_ERROR(buffer.Reserve(bytes));
    RETURN_IF_ERROR(buffer.Append(
        absl::MakeSpan(reinterpret_cast<const char*>(numbers.data()), bytes)));
    return buffer.MoveTo(column);
  }

  const uint64_t rows_;
  const ReadLimits& limits_;
  uint64_t row_bytes_ = 0;
  Philox random_{kSeed};
};

// Makes the rows of a synthetic dataset.
absl::StatusOr<Table> SyntheticTable(const v1::Dataset& dataset,
                                     const ReadLimits& limits) {
  const SyntheticForm form = {.rows = dataset.rows(),
                              .classes = dataset.classes(),
                              .shape = {dataset.feature_shape().begin(),
                                        dataset.feature_shape().end()}};
  ASSIGN_OR_RETURN(const uint64_t width, CheckedElementCount(form.shape));
  RETURN_IF_ERROR(
      CheckedTableBytes(form.rows, (width + 1) * sizeof(float), limits)
          .status());
  ASSIGN_OR_RETURN(const SyntheticRows rows,
                   MakeSyntheticRows(dataset.synthetic(), form));
  Table table;
  table.rows = form.rows;
  Maker maker(table.rows, limits);
  ASSIGN_OR_RETURN(Column features, maker.Given(rows.features, form.shape));
  ASSIGN_OR_RETURN(Column labels, maker.Given(rows.labels, {}));
  labels.facts = LabelFactsOf(dataset);
  table.inputs.push_back(std::move(features));
  table.targets.push_back(std::move(labels));
  return table;
}

}  // namespace

absl::StatusOr<Table> RandomTable(const v1::Dataset& dataset,
                                  const ReadLimits& limits) {
  Table table;
  table.rows = dataset.rows();
  table.random = true;
  Maker maker(table.rows, limits);
  for (const v1::DatasetArray& array : dataset.inputs()) {
    ASSIGN_OR_RETURN(Column column,
                     maker.Features(array.data_type(), {array.shape().begin(),
                                                        array.shape().end()}));
    column.name = array.name();
    table.inputs.push_back(std::move(column));
  }
  if (table.inputs.empty()) {
    ASSIGN_OR_RETURN(Column column,
                     maker.Features(dataset.feature_type(),
                                    {dataset.feature_shape().begin(),
                                     dataset.feature_shape().end()}));
    table.inputs.push_back(std::move(column));
  }
  for (const v1::DatasetArray& array : dataset.targets()) {
    ASSIGN_OR_RETURN(Column column,
                     maker.Labels(array.data_type(), FromProto(array.facts())));
    column.name = array.name();
    table.targets.push_back(std::move(column));
  }
  if (table.targets.empty()) {
    ASSIGN_OR_RETURN(Column column,
                     maker.Labels(v1::FLOAT32, LabelFactsOf(dataset)));
    table.targets.push_back(std::move(column));
  }
  return table;
}

absl::StatusOr<Table> ReadOrMakeTable(const v1::Dataset& dataset,
                                      const std::string& blob_dir,
                                      const ReadLimits& limits) {
  if (dataset.has_synthetic()) return SyntheticTable(dataset, limits);
  if (dataset.files().empty()) return RandomTable(dataset, limits);
  ASSIGN_OR_RETURN(Table table,
                   ReadDataset(dataset.layout(),
                               {dataset.files().begin(), dataset.files().end()},
                               blob_dir, limits));
  // The planned host bytes do not count facts for descriptions.
  table.csv_columns = std::vector<CsvColumnFacts>();
  table.class_names = std::vector<std::string>();
  return table;
}

}  // namespace gpupool::engine
