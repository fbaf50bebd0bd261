#include "client/cli/models/describe_view.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/table.h"
#include "client/text/counted.h"
#include "client/text/quote.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr int kMostColumns = 100;
constexpr int kMostClasses = 20;
constexpr int kMostExamples = 4;
constexpr int kMostShownColumns = 8;
constexpr int kBarWidth = 20;

std::string CategoryName(const std::string& category) {
  return category.empty() ? "(missing)" : Printable(category);
}

std::string Number(double number) { return absl::StrFormat("%.5g", number); }

std::string RowShape(const google::protobuf::RepeatedField<int64_t>& shape) {
  return shape.empty() ? "1" : absl::StrJoin(shape, "x");
}

bool IsOneHot(const v1::Dataset& dataset, const v1::DatasetColumn& column) {
  return column.is_text() && column.role() == v1::DatasetColumn::FEATURE &&
         dataset.layout().text() == v1::DatasetLayout::ONE_HOT;
}

bool IsBytes(const v1::Dataset& dataset, const v1::DatasetColumn& column) {
  return column.is_text() && column.role() == v1::DatasetColumn::FEATURE &&
         dataset.layout().text() == v1::DatasetLayout::BYTES;
}

std::string TypeText(const v1::Dataset& dataset,
                     const v1::DatasetColumn& column) {
  if (IsBytes(dataset, column)) return "text, bytes";
  if (column.is_text()) {
    return IsOneHot(dataset, column) ? "text, one-hot" : "text, index";
  }
  return absl::AsciiStrToLower(v1::DataType_Name(column.data_type()));
}

std::string ColumnShape(const v1::Dataset& dataset,
                        const v1::DatasetColumn& column) {
  if (IsBytes(dataset, column)) {
    return absl::StrCat(dataset.layout().text_length());
  }
  return IsOneHot(dataset, column) ? absl::StrCat(column.categories_size())
                                   : RowShape(column.shape());
}

// Returns "3: red, blue, green".
std::string Examples(const v1::DatasetColumn& column) {
  if (!column.is_text() || column.categories().empty()) return "";
  const int shown = std::min(column.categories_size(), kMostExamples);
  std::vector<std::string> names;
  for (int i = 0; i < shown; ++i) {
    names.push_back(CategoryName(column.categories(i)));
  }
  return absl::StrCat(column.categories_size(), ": ",
                      absl::StrJoin(names, ", "),
                      shown < column.categories_size() ? ", ..." : "");
}

// Returns "800 samples (0.1 s)".
std::string Length(uint64_t samples, const v1::AudioDescription& audio) {
  const double seconds =
      static_cast<double>(samples) / std::max(1u, audio.rate());
  return absl::StrCat(Counted(samples, "sample"), " (", Number(seconds), " s)");
}

void PrintAudio(const v1::AudioDescription& audio, std::ostream& out) {
  out << "audio     " << audio.rate() << " samples a second, "
      << Counted(audio.channels(), "channel") << "\n"
      << "lengths   " << Length(audio.shortest_samples(), audio);
  if (audio.longest_samples() != audio.shortest_samples()) {
    out << " to " << Length(audio.longest_samples(), audio);
  }
  if (audio.cut_rows() > 0) out << ", " << audio.cut_rows() << " cut";
  if (audio.padded_rows() > 0) {
    out << ", " << audio.padded_rows() << " padded";
  }
  out << "\n";
}

const char* TokenizerText(v1::TextDescription::Tokenizer tokenizer) {
  switch (tokenizer) {
    case v1::TextDescription::BYTES:
      return "bytes";
    case v1::TextDescription::WORDS:
      return "words of a table";
    case v1::TextDescription::UNIGRAM:
      return "SentencePiece, unigram";
    case v1::TextDescription::BPE:
      return "SentencePiece, BPE";
    case v1::TextDescription::WORD_PIECES:
      return "SentencePiece, words";
    case v1::TextDescription::CHARACTERS:
      return "SentencePiece, characters";
    default:
      return "of a newer server";
  }
}

void PrintText(const v1::TextDescription& text, std::ostream& out) {
  out << "tokens    " << GroupDigits(text.tokens()) << " of a vocabulary of "
      << GroupDigits(text.vocabulary()) << " ("
      << TokenizerText(text.tokenizer()) << ")\n"
      << "begins    "
      << absl::StrJoin(text.first_tokens(), " ",
                       [](std::string* to, const std::string& token) {
                         absl::StrAppend(to, Printable(token));
                       })
      << (static_cast<uint64_t>(text.first_tokens_size()) < text.tokens()
              ? " ..."
              : "")
      << "\n";
}

void PrintFacts(const v1::Dataset& dataset, std::ostream& out) {
  uint64_t bytes = 0;
  std::vector<std::string> names;
  for (const v1::DatasetFile& file : dataset.files()) {
    bytes += file.total_bytes();
    names.push_back(Printable(file.file_name()));
  }
  const uint64_t dropped = dataset.description().dropped_rows();
  out << "name      " << dataset.name() << "\n"
      << "format    " << v1::DatasetFormat_Name(dataset.layout().format())
      << "\n"
      << "stored    " << FormatBytes(bytes) << " ("
      << absl::StrJoin(names, ", ") << ")\n"
      << "rows      " << GroupDigits(dataset.rows());
  if (dropped > 0) {
    out << "; " << Counted(dropped, "row") << " with missing cells left out";
  }
  out << "\n";
  // Named arrays have shapes of their own in the table.
  if (dataset.inputs().empty()) {
    out << "features  " << RowShape(dataset.feature_shape()) << "\n";
  }
  if (dataset.targets().empty()) {
    out << "labels    " << RowShape(dataset.labels().shape());
    if (dataset.classes() > 0) out << ", " << dataset.classes() << " classes";
    out << "\n";
  }
  if (dataset.description().has_audio()) {
    PrintAudio(dataset.description().audio(), out);
  }
  if (dataset.description().has_text()) {
    PrintText(dataset.description().text(), out);
  }
}

void PrintColumns(const Context& context, const v1::Dataset& dataset) {
  const v1::DatasetDescription& description = dataset.description();
  Table table({{"COLUMN"},
               {"ROLE"},
               {"TYPE"},
               {"SHAPE", Table::kRight},
               {"MIN", Table::kRight},
               {"MEAN", Table::kRight},
               {"MAX", Table::kRight},
               {"MISSING", Table::kRight},
               {"CATEGORIES"}});
  const int shown = std::min(description.columns_size(), kMostColumns);
  for (int i = 0; i < shown; ++i) {
    const v1::DatasetColumn& column = description.columns(i);
    const auto number = [&](double value) {
      return column.is_text() ? std::string() : Number(value);
    };
    table.AddRow(
        {Printable(column.name()),
         column.role() == v1::DatasetColumn::LABEL ? "label" : "feature",
         TypeText(dataset, column), ColumnShape(dataset, column),
         number(column.minimum()), number(column.mean()),
         number(column.maximum()), absl::StrCat(column.missing()),
         Examples(column)});
  }
  table.Print(context.out(), context.headers());
  const uint64_t more =
      description.columns_left_out() +
      static_cast<uint64_t>(description.columns_size() - shown);
  if (more > 0) {
    *context.out().stream << "and " << Counted(more, "more column") << "\n";
  }
}

// Returns a bar for `rows` of at most `most`: at least a mark if there is one.
std::string RowsBar(uint64_t rows, uint64_t most) {
  const double share = static_cast<double>(rows) / static_cast<double>(most);
  const int marks =
      rows == 0 ? 0 : std::max(1, static_cast<int>(share * kBarWidth + 0.5));
  std::string bar;
  for (int i = 0; i < marks; ++i) bar += "█";
  return bar;
}

void PrintClasses(const Context& context, const v1::DatasetColumn& label) {
  std::ostream& out = *context.out().stream;
  uint64_t all = 0, most = 1;
  for (uint64_t rows : label.category_rows()) {
    all += rows;
    most = std::max(most, rows);
  }
  out << "\nclasses of " << Printable(label.name()) << "\n";
  Table table({{"CLASS", Table::kRight},
               {"NAME"},
               {"ROWS", Table::kRight},
               {"SHARE", Table::kRight},
               {"BALANCE"}});
  const int shown = std::min(label.category_rows_size(), kMostClasses);
  for (int i = 0; i < shown; ++i) {
    const uint64_t rows = label.category_rows(i);
    table.AddRow(
        {absl::StrCat(i),
         i < label.categories_size() ? CategoryName(label.categories(i)) : "",
         absl::StrCat(rows),
         absl::StrFormat("%.1f%%", 100.0 * static_cast<double>(rows) /
                                       static_cast<double>(all)),
         RowsBar(rows, most)});
  }
  table.Print(context.out(), context.headers());
  const int more = label.category_rows_size() - shown;
  if (more > 0) {
    out << "and " << more << (more == 1 ? " more class" : " more classes")
        << " (-o json shows all)\n";
  }
}

// Returns the columns of the table of first rows: the first ones, and a label.
std::vector<const v1::DatasetColumn*> ShownColumns(
    const v1::DatasetDescription& description) {
  std::vector<const v1::DatasetColumn*> shown;
  for (const v1::DatasetColumn& column : description.columns()) {
    shown.push_back(&column);
  }
  if (shown.size() <= kMostShownColumns) return shown;
  const auto label =
      std::find_if(shown.begin() + kMostShownColumns - 1, shown.end(),
                   [](const v1::DatasetColumn* column) {
                     return column->role() == v1::DatasetColumn::LABEL;
                   });
  if (label != shown.end()) shown[kMostShownColumns - 1] = *label;
  shown.resize(kMostShownColumns);
  return shown;
}

void PrintFirstRows(const Context& context,
                    const v1::DatasetDescription& description) {
  const auto shown = ShownColumns(description);
  std::vector<Table::Column> headers;
  int rows = 0;
  for (const v1::DatasetColumn* column : shown) {
    headers.push_back({Printable(column->name())});
    rows = std::max(rows, column->first_values_size());
  }
  Table table(headers);
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> cells;
    for (const v1::DatasetColumn* column : shown) {
      cells.push_back(row < column->first_values_size()
                          ? Printable(column->first_values(row))
                          : "");
    }
    table.AddRow(cells);
  }
  *context.out().stream << "\nfirst rows\n";
  table.Print(context.out(), true);
}

}  // namespace

void PrintDescription(const Context& context, const v1::Dataset& dataset) {
  std::ostream& out = *context.out().stream;
  PrintFacts(dataset, out);
  const v1::DatasetDescription& description = dataset.description();
  if (description.columns().empty()) {
    out << "\nAn older server stored it without a description of its columns. "
           "Delete it and upload it again to have one.\n";
    return;
  }
  out << "\n";
  PrintColumns(context, dataset);
  for (const v1::DatasetColumn& column : description.columns()) {
    if (column.role() == v1::DatasetColumn::LABEL &&
        !column.category_rows().empty()) {
      PrintClasses(context, column);
    }
  }
  PrintFirstRows(context, description);
}

}  // namespace gpupool::client
