#include "engine/data/row_form.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/quoted_names.h"
#include "engine/base/status_macros.h"
#include "engine/data/csv/cells.h"
#include "engine/data/label_facts.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

using Arrays = std::vector<ArrayForm>;

// Returns the dimensions other than 1, which make no difference.
std::vector<int64_t> Squeezed(absl::Span<const int64_t> shape) {
  std::vector<int64_t> kept;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(kept),
               [](int64_t dimension) { return dimension != 1; });
  return kept;
}

uint64_t NumbersIn(absl::Span<const int64_t> shape) {
  uint64_t numbers = 1;
  for (int64_t dimension : shape) numbers *= static_cast<uint64_t>(dimension);
  return numbers;
}

// An array of both datasets.
struct Pair {
  std::string name;  // for messages
  const std::vector<int64_t>& one;
  const std::vector<int64_t>& other;
};

absl::Status CheckShapes(const Pair& pair, const RowForm& one,
                         const RowForm& other) {
  if (ShapesAgree(pair.one, pair.other)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.validation: ", pair.name, " of a row of dataset \"", other.dataset,
      "\" have shape [", absl::StrJoin(pair.other, ","), "], but those of \"",
      one.dataset, "\" have shape [", absl::StrJoin(pair.one, ","),
      "]; both need rows of the same form"));
}

std::string NamesOf(const Arrays& arrays) {
  return arrays.empty() ? "no names" : QuotedNames(arrays);
}

// Checks the arrays of one kind: inputs or targets.
absl::Status CheckArrays(const RowForm& one, const RowForm& other,
                         Arrays RowForm::*kind) {
  const Arrays &a = one.*kind, &b = other.*kind;
  if (NamesOf(a) != NamesOf(b)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.validation: dataset \"", other.dataset, "\" has the arrays ",
        NamesOf(b), ", but \"", one.dataset, "\" has ", NamesOf(a),
        "; both need rows of the same form"));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    RETURN_IF_ERROR(
        CheckShapes({absl::StrCat("'", a[i].name, "'"), a[i].shape, b[i].shape},
                    one, other));
  }
  return absl::OkStatus();
}

Arrays ArraysOf(
    const google::protobuf::RepeatedPtrField<v1::DatasetArray>& arrays) {
  Arrays forms;
  for (const v1::DatasetArray& array : arrays) {
    forms.push_back(
        {array.name(), {array.shape().begin(), array.shape().end()}});
  }
  return forms;
}

Arrays ArraysOf(const std::vector<Column>& columns) {
  Arrays forms;
  // The only features or labels of a dataset have no name.
  if (columns.front().name.empty()) return forms;
  for (const Column& column : columns) {
    forms.push_back({column.name, column.shape});
  }
  return forms;
}

using Columns = std::vector<const v1::DatasetColumn*>;

// Returns the described columns in the order of their numbers in a row,
// features before labels.
Columns ColumnsOf(const v1::Dataset& dataset) {
  Columns columns;
  for (const v1::DatasetColumn& column : dataset.description().columns()) {
    columns.push_back(&column);
  }
  std::sort(columns.begin(), columns.end(),
            [](const v1::DatasetColumn* a, const v1::DatasetColumn* b) {
              return std::pair(a->role(), a->first_number()) <
                     std::pair(b->role(), b->first_number());
            });
  return columns;
}

Columns TextColumnsOf(const v1::Dataset& dataset) {
  Columns columns = ColumnsOf(dataset);
  columns.erase(std::remove_if(columns.begin(), columns.end(),
                               [](const v1::DatasetColumn* column) {
                                 return !column->is_text();
                               }),
                columns.end());
  return columns;
}

// Returns whether the name may be that of a header or a key. Without a header,
// names are numbers, which skipped columns change.
bool IsName(const std::string& name) {
  int64_t number;
  return !name.empty() && !absl::SimpleAtoi(name, &number);
}

bool SamePlace(const v1::DatasetColumn& a, const v1::DatasetColumn& b) {
  return a.role() == b.role() && a.first_number() == b.first_number();
}

// Returns the first categories of a column, for messages.
std::string CategoriesText(const v1::DatasetColumn& column) {
  constexpr ptrdiff_t kMostNamed = 5;
  return absl::StrCat(column.categories_size(), " categories (",
                      QuotedCells(column.categories(), kMostNamed), ")");
}

absl::Status OtherCategories(const std::string& what, const v1::Dataset& one,
                             const v1::Dataset& other) {
  return absl::InvalidArgumentError(absl::StrCat(
      "data.validation: ", what,
      ", so its numbers would mean something else; upload \"", other.name(),
      "\" again with the categories of \"", one.name(),
      "\" (gpupool datasets upload --like ", one.name(), ")"));
}

v1::DatasetLayout::Missing MissingOf(const v1::Dataset& dataset) {
  const v1::DatasetLayout::Missing missing = dataset.layout().missing();
  return missing == v1::DatasetLayout::MISSING_UNSPECIFIED
             ? v1::DatasetLayout::REFUSE
             : missing;
}

bool AreCsv(const v1::Dataset& one, const v1::Dataset& other) {
  return one.layout().format() == v1::CSV && other.layout().format() == v1::CSV;
}

// Checks that missing cells become the same in both CSV files.
absl::Status CheckSameMissing(const v1::Dataset& one,
                              const v1::Dataset& other) {
  const v1::DatasetLayout::Missing a = MissingOf(one), b = MissingOf(other);
  if (!AreCsv(one, other) || a == b) return absl::OkStatus();
  const auto name = [](v1::DatasetLayout::Missing missing) {
    return v1::DatasetLayout::Missing_Name(missing);
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "data.validation: dataset \"", other.name(), "\" has layout.missing ",
      name(b), ", but \"", one.name(), "\" has ", name(a), "; upload \"",
      other.name(), "\" again with ", name(a),
      " (gpupool datasets upload --missing)"));
}

// Checks that the recordings of both have as many samples a second.
absl::Status CheckSameRate(const v1::Dataset& one, const v1::Dataset& other) {
  const uint32_t a = one.description().audio().rate();
  const uint32_t b = other.description().audio().rate();
  if (a == 0 || b == 0 || a == b) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.validation: recordings of dataset \"", other.name(), "\" have ", b,
      " samples a second, but those of \"", one.name(), "\" have ", a,
      "; convert them to that rate, and upload \"", other.name(),
      "\" again (gpupool datasets upload --like ", one.name(), ")"));
}

// Returns the digest of the dataset's tokenizer; empty: it has none.
std::string TokenizerOf(const v1::Dataset& dataset) {
  for (const v1::DatasetFile& file : dataset.files()) {
    if (file.role() == v1::DatasetFile::TOKENIZER) return file.sha256();
  }
  return "";
}

// Checks that both have the same SentencePiece model, or none.
absl::Status CheckSameTokenizer(const v1::Dataset& one,
                                const v1::Dataset& other) {
  const std::string a = TokenizerOf(one), b = TokenizerOf(other);
  if (a == b) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.validation: dataset \"", other.name(), "\" has ",
      b.empty()   ? "no tokenizer, but \""
      : a.empty() ? "a tokenizer, but \""
                  : "another tokenizer than \"",
      one.name(),
      b.empty()   ? "\" has one"
      : a.empty() ? "\" has none"
                  : "\"",
      ", so its tokens would mean something else; upload \"", other.name(),
      "\" again ",
      a.empty() ? "without --tokenizer" : "with the same --tokenizer FILE"));
}

}  // namespace

RowForm FormOf(const v1::Dataset& dataset) {
  return {dataset.name(),
          {dataset.feature_shape().begin(), dataset.feature_shape().end()},
          LabelFactsOf(dataset).shape,
          ArraysOf(dataset.inputs()),
          ArraysOf(dataset.targets())};
}

RowForm FormOf(const std::string& name, const Table& table) {
  return {name, table.features().shape, table.labels().shape,
          ArraysOf(table.inputs), ArraysOf(table.targets)};
}

bool ShapesAgree(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  const std::vector<int64_t> one = Squeezed(a);
  const std::vector<int64_t> other = Squeezed(b);
  if (one == other) return true;
  return (one.size() <= 1 || other.size() <= 1) &&
         NumbersIn(one) == NumbersIn(other);
}

absl::Status CheckSameForm(const RowForm& one, const RowForm& other) {
  RETURN_IF_ERROR(CheckArrays(one, other, &RowForm::inputs));
  RETURN_IF_ERROR(CheckArrays(one, other, &RowForm::targets));
  if (one.inputs.empty()) {
    RETURN_IF_ERROR(
        CheckShapes({"features", one.features, other.features}, one, other));
  }
  if (!one.targets.empty()) return absl::OkStatus();
  return CheckShapes({"labels", one.labels, other.labels}, one, other);
}

absl::Status CheckSameCategories(const v1::Dataset& one,
                                 const v1::Dataset& other) {
  RETURN_IF_ERROR(CheckSameMissing(one, other));
  RETURN_IF_ERROR(CheckSameRate(one, other));
  RETURN_IF_ERROR(CheckSameTokenizer(one, other));
  const Columns a = TextColumnsOf(one), b = TextColumnsOf(other);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const bool both = i < a.size() && i < b.size() && SamePlace(*a[i], *b[i]);
    if (!both) {
      const v1::DatasetColumn& column = i < a.size() ? *a[i] : *b[i];
      return OtherCategories(
          absl::StrCat("column ", QuotedCell(column.name()),
                       " holds text in only one of the datasets \"", one.name(),
                       "\" and \"", other.name(), "\""),
          one, other);
    }
    if (std::equal(a[i]->categories().begin(), a[i]->categories().end(),
                   b[i]->categories().begin(), b[i]->categories().end())) {
      continue;
    }
    return OtherCategories(
        absl::StrCat("column ", QuotedCell(b[i]->name()), " of dataset \"",
                     other.name(), "\" has ", CategoriesText(*b[i]),
                     ", but that of \"", one.name(), "\" has ",
                     CategoriesText(*a[i])),
        one, other);
  }
  return absl::OkStatus();
}

absl::Status CheckSameOrder(const v1::Dataset& one, const v1::Dataset& other) {
  if (!AreCsv(one, other)) return absl::OkStatus();
  const Columns a = ColumnsOf(one), b = ColumnsOf(other);
  absl::flat_hash_set<absl::string_view> names;
  for (const v1::DatasetColumn* column : b) names.insert(column->name());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const std::string& name = a[i]->name();
    if (name == b[i]->name() || !IsName(name) || !names.contains(name)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "data.validation: the columns of dataset \"", other.name(),
        "\" have another order than those of \"", one.name(),
        "\": ", QuotedCell(b[i]->name()), " is where ", QuotedCell(name),
        " should be, so its numbers would mean something else; upload \"",
        other.name(),
        "\" again with the same label, and with its columns in "
        "the order of \"",
        one.name(),
        "\" (in JSON lines, the order of the keys of the first object)"));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
