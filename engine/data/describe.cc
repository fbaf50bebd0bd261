#include "engine/data/describe.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/data/csv/column_facts.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

constexpr int kMostNumberColumns = 1000;
constexpr uint32_t kMostClasses = 10'000;
constexpr uint64_t kMostCounted = uint64_t{1} << 30;
constexpr uint64_t kChunkNumbers = 16 << 10;
constexpr uint64_t kShownNumbers = 6;

// Calls `take` with the first `count` numbers of the column, in parts.
template <typename Take>
void ForChunks(const Column& column, uint64_t count, const Take& take) {
  std::vector<float> chunk;
  for (uint64_t done = 0; done < count; done += chunk.size()) {
    chunk.resize(std::min(kChunkNumbers, count - done));
    Convert(column, done, absl::MakeSpan(chunk));
    take(chunk);
  }
}

// Counts the rows of each class, if the label is one.
void CountClasses(const Column& labels, v1::DatasetColumn& facts) {
  const uint32_t classes = labels.facts.class_count();
  if (labels.width != 1 || classes == 0 || classes > kMostClasses) return;
  std::vector<uint64_t> rows(classes);
  ForChunks(labels, labels.rows, [&](const std::vector<float>& chunk) {
    for (float label : chunk) ++rows[static_cast<size_t>(label)];
  });
  facts.mutable_category_rows()->Add(rows.begin(), rows.end());
}

void CountNumbers(const Column& column, v1::DatasetColumn& facts) {
  const uint64_t rows =
      std::min(column.rows, std::max<uint64_t>(1, kMostCounted / column.width));
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -minimum;
  double sum = 0;
  ForChunks(column, rows * column.width, [&](const std::vector<float>& chunk) {
    for (float number : chunk) {
      minimum = std::min<double>(minimum, number);
      maximum = std::max<double>(maximum, number);
      sum += number;
    }
  });
  facts.set_minimum(minimum);
  facts.set_maximum(maximum);
  facts.set_mean(sum / static_cast<double>(rows * column.width));
  facts.set_counted_rows(rows);
}

// Returns the first numbers of the row.
std::string RowText(const Column& column, uint64_t row) {
  std::vector<float> numbers(std::min(column.width, kShownNumbers));
  Convert(column, row * column.width, absl::MakeSpan(numbers));
  return absl::StrCat(absl::StrJoin(numbers, " "),
                      numbers.size() < column.width ? " ..." : "");
}

// Describes labels that are the numbers of named classes.
void NameClasses(const Column& labels,
                 const std::vector<std::string>& class_names,
                 v1::DatasetColumn& facts) {
  if (class_names.empty()) return;
  facts.set_is_text(true);
  facts.clear_minimum();
  facts.clear_mean();
  facts.clear_maximum();
  facts.mutable_categories()->Add(class_names.begin(), class_names.end());
  // The last classes may have no rows.
  while (facts.category_rows_size() < facts.categories_size()) {
    facts.add_category_rows(0);
  }
  for (int row = 0; row < facts.first_values_size(); ++row) {
    int64_t number;
    Convert(labels, static_cast<uint64_t>(row), absl::MakeSpan(&number, 1));
    facts.set_first_values(row, class_names[static_cast<size_t>(number)]);
  }
}

v1::DatasetColumn DescribeArray(const Column& column,
                                v1::DatasetColumn::Role role) {
  v1::DatasetColumn facts;
  const bool label = role == v1::DatasetColumn::LABEL;
  facts.set_name(!column.name.empty() ? column.name
                 : label              ? "labels"
                                      : "features");
  facts.set_role(role);
  facts.set_data_type(ToProto(column.stored));
  facts.mutable_shape()->Add(column.shape.begin(), column.shape.end());
  CountNumbers(column, facts);
  if (label) CountClasses(column, facts);
  for (uint64_t row = 0; row < std::min(column.rows, kShownRows); ++row) {
    facts.add_first_values(RowText(column, row));
  }
  return facts;
}

v1::DatasetColumn DescribeCsvColumn(const CsvColumnFacts& column,
                                    uint64_t rows) {
  v1::DatasetColumn facts;
  facts.set_name(column.name);
  facts.set_role(column.label ? v1::DatasetColumn::LABEL
                              : v1::DatasetColumn::FEATURE);
  facts.set_data_type(v1::FLOAT32);
  facts.set_first_number(static_cast<uint32_t>(column.first_number));
  facts.set_missing(column.missing);
  facts.set_is_text(column.text);
  facts.set_counted_rows(rows);
  if (!column.text) {
    facts.set_minimum(column.minimum);
    facts.set_maximum(column.maximum);
    facts.set_mean(column.sum / static_cast<double>(column.numbers));
  }
  facts.mutable_categories()->Add(column.categories.begin(),
                                  column.categories.end());
  facts.mutable_category_rows()->Add(column.category_rows.begin(),
                                     column.category_rows.end());
  facts.mutable_first_values()->Add(column.first_values.begin(),
                                    column.first_values.end());
  return facts;
}

void DescribeCsv(const Table& table, v1::DatasetDescription& description) {
  int numbers = 0;
  for (const CsvColumnFacts& column : table.csv_columns) {
    // Text and labels have facts that nothing else has, so all are kept.
    const bool counted = !column.text && !column.label;
    if (counted && ++numbers > kMostNumberColumns) {
      description.set_columns_left_out(description.columns_left_out() + 1);
      continue;
    }
    v1::DatasetColumn& facts = *description.add_columns();
    facts = DescribeCsvColumn(column, table.rows);
    if (column.label && !column.text) CountClasses(table.labels(), facts);
  }
  description.set_dropped_rows(table.dropped_rows);
}

void DescribeAudio(const AudioFacts& audio, v1::AudioDescription& description) {
  description.set_rate(audio.rate);
  description.set_channels(audio.channels);
  description.set_shortest_samples(audio.shortest);
  description.set_longest_samples(audio.longest);
  description.set_cut_rows(audio.cut_rows);
  description.set_padded_rows(audio.padded_rows);
}

void DescribeText(const Table& table, v1::TextDescription& description) {
  using Tokenizer = TextFacts::Tokenizer;
  const TextFacts& text = *table.text;
  switch (text.tokenizer) {
    case Tokenizer::kBytes:
      description.set_tokenizer(v1::TextDescription::BYTES);
      break;
    case Tokenizer::kWords:
      description.set_tokenizer(v1::TextDescription::WORDS);
      break;
    case Tokenizer::kUnigram:
      description.set_tokenizer(v1::TextDescription::UNIGRAM);
      break;
    case Tokenizer::kBpe:
      description.set_tokenizer(v1::TextDescription::BPE);
      break;
    case Tokenizer::kWordPieces:
      description.set_tokenizer(v1::TextDescription::WORD_PIECES);
      break;
    case Tokenizer::kCharacters:
      description.set_tokenizer(v1::TextDescription::CHARACTERS);
      break;
  }
  description.set_vocabulary(text.vocabulary);
  description.set_tokens(table.rows);
  description.mutable_first_tokens()->Add(text.first.begin(), text.first.end());
}

}  // namespace

v1::DatasetDescription DescribeTable(const Table& table) {
  v1::DatasetDescription description;
  if (!table.csv_columns.empty()) {
    DescribeCsv(table, description);
    return description;
  }
  for (const Column& column : table.inputs) {
    *description.add_columns() =
        DescribeArray(column, v1::DatasetColumn::FEATURE);
  }
  for (const Column& column : table.targets) {
    *description.add_columns() =
        DescribeArray(column, v1::DatasetColumn::LABEL);
    NameClasses(column, table.class_names,
                *description.mutable_columns()->rbegin());
  }
  if (table.audio.has_value()) {
    DescribeAudio(*table.audio, *description.mutable_audio());
  }
  if (table.text.has_value()) {
    DescribeText(table, *description.mutable_text());
  }
  return description;
}

}  // namespace gpupool::engine
