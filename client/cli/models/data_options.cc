#include "client/cli/models/data_options.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "client/cli/output/progress_line.h"
#include "client/files/sample_folder.h"
#include "client/files/token_table.h"
#include "client/text/counted.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

// Adds an option that takes NAME=ARRAY and may be repeated.
CLI::Option* AddArrayOption(CLI::App& verb, const std::string& flag,
                            std::vector<std::string>& pairs,
                            const std::string& help) {
  const auto seen = std::make_shared<std::set<std::string>>();
  return verb.add_option(flag, pairs, help)
      ->allow_extra_args(false)
      ->type_name("NAME=ARRAY")
      ->check([flag, seen](const std::string& text) -> std::string {
        const size_t sign = text.find('=');
        if (sign == std::string::npos || sign == 0 || sign + 1 == text.size()) {
          return absl::StrCat(flag, " takes NAME=ARRAY, not '", text, "'");
        }
        const std::string name = text.substr(0, sign);
        if (seen->insert(name).second) return "";
        return absl::StrCat(flag, " gives '", name, "' two arrays");
      });
}

void AddCsvOptions(CLI::App& verb, DataOptions& options) {
  verb.add_option("--missing", options.missing,
                  "CSV: what to do with rows that have empty cells or NA, N/A, "
                  "#N/A, <NA>, NaN, null or ?: refuse the file, fill them in "
                  "with the column's mean or with zero, or leave out the row "
                  "(default: refuse)")
      ->check(CLI::IsMember({"refuse", "mean", "zero", "drop-row"}))
      ->type_name("RULE");
  verb.add_option("--text", options.text,
                  "CSV: what a text column becomes: the index of its category, "
                  "a number 0 or 1 for each category, or its bytes (default: "
                  "index)")
      ->check(CLI::IsMember({"index", "one-hot", "bytes"}))
      ->type_name("FORM");
  verb.add_option("--text-length", options.text_length,
                  "CSV with --text bytes: numbers of a text; a longer one is "
                  "cut, a shorter one ends in zeros")
      ->type_name("N");
  verb.add_option("--text-columns", options.text_columns,
                  "CSV: columns whose cells are all categories, also numbers: "
                  "by name with --header, or from 0")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...");
  verb.add_option("--skip-columns", options.skipped_columns,
                  "CSV: columns to leave out: by name with --header, or from 0")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...");
  verb.add_option("--like", options.like,
                  "CSV, images and recordings: number categories or classes as "
                  "this dataset does, and refuse others; for validation sets")
      ->type_name("DATASET");
}

void AddTextOptions(CLI::App& verb, DataOptions& options) {
  verb.add_option("--tokens", options.tokens,
                  "Text files: take words as tokens, which this file has, one "
                  "a line; <unk> stands for other words (default: bytes)")
      ->type_name("FILE");
  verb.add_option("--tokenizer", options.tokenizer,
                  "Text files: take the pieces of this SentencePiece model "
                  "(.model) as tokens; `gpupool datasets tokenizer train` "
                  "makes one")
      ->type_name("FILE")
      ->excludes("--tokens");
}

void AddImageOptions(CLI::App& verb, DataOptions& options) {
  verb.add_option("--image-size", options.image_size,
                  "Images: resize them to so many pixels: both sides, or "
                  "HEIGHTxWIDTH (default: all have one size)")
      ->type_name("SIZE");
  verb.add_option("--image-fit", options.image_fit,
                  "Images: cut off what is too long, or change the proportions "
                  "(default: crop)")
      ->check(CLI::IsMember({"crop", "stretch"}))
      ->type_name("FIT");
  verb.add_flag("--grey", options.grey, "Images: one channel instead of three");
}

void AddAudioOptions(CLI::App& verb, DataOptions& options) {
  auto* samples =
      verb.add_option("--audio-samples", options.audio_samples,
                      "Recordings: cut or pad them to so many samples of each "
                      "channel (default: all have one length)")
          ->check(CLI::Range(1u, 1u << 24))
          ->type_name("N");
  verb.add_option("--audio-seconds", options.audio_seconds,
                  "Recordings: cut or pad them to so many seconds")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->excludes(samples);
  verb.add_option("--audio-rate", options.audio_rate,
                  "Recordings: refuse others than of so many samples a second "
                  "(default: as the first one)")
      ->check(CLI::Range(1u, 1'000'000u))
      ->type_name("N");
}

}  // namespace

void AddLayoutOptions(CLI::App& verb, DataOptions& options) {
  verb.add_option("--labels", options.labels_file,
                  "File of the labels (IDX and NPY have two files)")
      ->type_name("FILE");
  auto* column =
      verb.add_option("--label-column", options.label_column,
                      "CSV: column of the label, from 0; negative numbers "
                      "count from the end (default: -1, the last)")
          ->type_name("N");
  verb.add_option("--label-columns", options.label_columns,
                  "CSV: columns of a label of several numbers, in their order: "
                  "numbers as for --label-column or, with --header, names")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...")
      ->excludes(column);
  verb.add_flag("--header", options.has_header,
                "CSV: the first line holds names");
  AddCsvOptions(verb, options);
  verb.add_option(
          "--format", options.format,
          "Format of the file (default: by its name). Options for CSV are "
          "for JSON lines (jsonl), too; keys are the names of columns")
      ->check(CLI::IsMember(
          {"csv", "jsonl", "idx", "npy", "npz", "images", "audio", "text"}))
      ->type_name("FORMAT");
  verb.add_option("--features-array", options.features_array,
                  "NPZ: name of the array of features (default: x)")
      ->type_name("NAME");
  verb.add_option("--labels-array", options.labels_array,
                  "NPZ: name of the array of labels (default: y)")
      ->type_name("NAME");
  AddArrayOption(verb, "--input", options.inputs,
                 "NPZ: the array for one of the model's inputs; once for each "
                 "input")
      ->excludes("--features-array");
  AddArrayOption(verb, "--target", options.targets,
                 "NPZ: an array to compare outputs with, by a name for "
                 "training.losses; may be repeated")
      ->excludes("--labels-array");
  AddImageOptions(verb, options);
  AddTextOptions(verb, options);
  AddAudioOptions(verb, options);
}

void AddDataOption(CLI::App& verb, DataOptions& options) {
  verb.add_option("--data", options.file,
                  "First upload this file or folder as the job's "
                  "dataset, unless the server has it")
      ->type_name("PATH");
  AddLayoutOptions(verb, options);
}

namespace {

// Adds the columns as numbers if all of them are numbers, else as names.
void AddLabelColumns(const std::vector<std::string>& columns,
                     v1::DatasetLayout& layout) {
  for (const std::string& column : columns) {
    int number;
    if (!absl::SimpleAtoi(column, &number)) {
      layout.clear_label_columns();
      layout.mutable_label_names()->Assign(columns.begin(), columns.end());
      return;
    }
    layout.add_label_columns(number);
  }
}

// Splits NAME=ARRAY at the first sign. Array names may have others.
void AddArrays(const std::vector<std::string>& pairs,
               google::protobuf::Map<std::string, std::string>& arrays) {
  for (const std::string& pair : pairs) {
    const size_t sign = pair.find('=');
    arrays[pair.substr(0, sign)] = pair.substr(sign + 1);
  }
}

void AddCsvLayout(const DataOptions& options, v1::DatasetLayout& layout) {
  // The defaults stay unset, so that the layout equals that of an upload
  // without these options.
  if (options.missing == "mean") layout.set_missing(v1::DatasetLayout::MEAN);
  if (options.missing == "zero") layout.set_missing(v1::DatasetLayout::ZERO);
  if (options.missing == "drop-row") {
    layout.set_missing(v1::DatasetLayout::DROP_ROW);
  }
  if (options.text == "one-hot") layout.set_text(v1::DatasetLayout::ONE_HOT);
  if (options.text == "bytes") layout.set_text(v1::DatasetLayout::BYTES);
  layout.set_text_length(options.text_length.value_or(0));
  layout.mutable_text_columns()->Assign(options.text_columns.begin(),
                                        options.text_columns.end());
  layout.mutable_skipped_columns()->Assign(options.skipped_columns.begin(),
                                           options.skipped_columns.end());
}

// Adds the options of images.
absl::Status AddImageLayout(const DataOptions& options,
                            v1::DatasetLayout& layout) {
  if (options.grey) layout.set_image_channels(1);
  if (options.image_fit == "stretch") {
    layout.set_image_fit(v1::DatasetLayout::STRETCH);
  }
  if (options.image_size.empty()) return absl::OkStatus();
  const std::vector<std::string> sides =
      absl::StrSplit(options.image_size, 'x');
  uint32_t height = 0, width = 0;
  if (sides.size() > 2 || !absl::SimpleAtoi(sides.front(), &height) ||
      !absl::SimpleAtoi(sides.back(), &width) || height == 0 || width == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image-size is '", options.image_size,
                     "'; write 224, or 120x160 for height and width"));
  }
  layout.set_image_height(height);
  layout.set_image_width(width);
  return absl::OkStatus();
}

// Adds the tokens of text to the layout, if there is a file of them.
absl::Status AddTokens(const DataOptions& options, v1::DatasetLayout& layout) {
  if (options.tokens.empty()) return absl::OkStatus();
  if (!options.like.empty()) {
    return absl::InvalidArgumentError(
        "--tokens and --like both give tokens; leave one out");
  }
  const absl::StatusOr<std::vector<std::string>> tokens =
      ReadTokenTable(options.tokens);
  if (!tokens.ok()) return tokens.status();
  v1::ColumnCategories& categories = *layout.add_categories();
  categories.set_column("labels");
  categories.mutable_values()->Assign(tokens->begin(), tokens->end());
  return absl::OkStatus();
}

void AddAudioLayout(const DataOptions& options, v1::DatasetLayout& layout) {
  // Without options the field stays absent, as for other formats.
  if (options.audio_samples != 0) {
    layout.mutable_audio()->set_samples(options.audio_samples);
  }
  if (options.audio_seconds != 0) {
    layout.mutable_audio()->set_seconds(options.audio_seconds);
  }
  if (options.audio_rate != 0) {
    layout.mutable_audio()->set_rate(options.audio_rate);
  }
}

// Adds the categories of the dataset options.like to the layout, if it is set.
absl::Status AddCategories(Client& client, const DataOptions& options,
                           v1::DatasetLayout& layout) {
  if (options.like.empty()) return absl::OkStatus();
  v1::GetDatasetRequest request;
  request.set_name(options.like);
  const absl::StatusOr<v1::Dataset> dataset = client.GetDataset(request);
  if (!dataset.ok()) return dataset.status();
  // Recordings of another rate would have rows of other seconds.
  if (dataset->description().has_audio() && options.audio_rate == 0) {
    layout.mutable_audio()->set_rate(dataset->description().audio().rate());
  }
  for (const v1::DatasetColumn& column : dataset->description().columns()) {
    // Texts that are bytes have no categories.
    if (!column.is_text() || column.categories().empty()) continue;
    v1::ColumnCategories& categories = *layout.add_categories();
    categories.set_column(column.name());
    *categories.mutable_values() = column.categories();
  }
  if (!layout.categories().empty()) return absl::OkStatus();
  for (const v1::DatasetFile& file : dataset->files()) {
    if (file.role() != v1::DatasetFile::TOKENIZER) continue;
    if (!options.tokenizer.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--like: dataset ", options.like, " has the tokenizer ",
                     file.file_name(), "; give it with --tokenizer FILE"));
  }
  return absl::InvalidArgumentError(absl::StrCat("--like: dataset ",
                                                 options.like,
                                                 " has no text columns and no "
                                                 "classes with names"));
}

}  // namespace

absl::StatusOr<DatasetUpload> MakeUpload(Client& client,
                                         const std::string& name,
                                         const DataOptions& options) {
  DatasetUpload upload;
  upload.name = name;
  upload.file = options.file;
  upload.labels_file = options.labels_file;
  upload.more_files = options.more_files;
  upload.tokenizer_file = options.tokenizer;
  v1::DatasetFormat format = v1::DATASET_FORMAT_UNSPECIFIED;
  // JSON lines are the same format, rows in lines, with names for the columns.
  const bool json_lines = options.format == "jsonl";
  v1::DatasetFormat_Parse(
      json_lines ? "CSV" : absl::AsciiStrToUpper(options.format), &format);
  upload.layout.set_format(format);
  if (options.label_column.has_value()) {
    upload.layout.set_label_column(*options.label_column);
  }
  AddLabelColumns(options.label_columns, upload.layout);
  upload.layout.set_has_header(options.has_header || json_lines);
  AddCsvLayout(options, upload.layout);
  upload.layout.set_features_array(options.features_array);
  upload.layout.set_labels_array(options.labels_array);
  AddArrays(options.inputs, *upload.layout.mutable_input_arrays());
  AddArrays(options.targets, *upload.layout.mutable_target_arrays());
  const absl::Status images = AddImageLayout(options, upload.layout);
  if (!images.ok()) return images;
  const absl::Status tokens = AddTokens(options, upload.layout);
  if (!tokens.ok()) return tokens;
  AddAudioLayout(options, upload.layout);
  const absl::Status added = AddCategories(client, options, upload.layout);
  if (!added.ok()) return added;
  return upload;
}

namespace {

UploadProgress TransferLine(const Context& context, const char* what,
                            const std::string& name) {
  if (!context.err().is_terminal) return nullptr;
  return [&context, what, name](uint64_t sent, uint64_t total) {
    *context.err().stream << "\r\x1b[K"
                          << TransferText(absl::StrCat(what, " ", name), sent,
                                          total)
                          << std::flush;
  };
}

}  // namespace

UploadProgress UploadLine(const Context& context, const std::string& name) {
  return TransferLine(context, "uploading", name);
}

UploadProgress DownloadLine(const Context& context, const std::string& name) {
  return TransferLine(context, "receiving", name);
}

void ClearUploadLine(const Context& context) {
  if (context.err().is_terminal) {
    *context.err().stream << "\r\x1b[K" << std::flush;
  }
}

void SayLeftOut(const Context& context, const DatasetUpload& upload) {
  constexpr size_t kMostShown = 3;
  std::error_code error;
  if (!std::filesystem::is_directory(upload.file, error)) return;
  const absl::StatusOr<SampleList> list = ListSamples(upload.file);
  if (!list.ok() || list->left_out.empty()) return;
  const std::vector<std::string>& names = list->left_out;
  const auto shown =
      absl::MakeConstSpan(names).first(std::min(kMostShown, names.size()));
  context.Say(absl::StrCat(Counted(names.size(), "file"),
                           " left out, because only ", EndingsOf(list->kind),
                           " files are ", NounOf(list->kind),
                           "s: ", absl::StrJoin(shown, ", "),
                           names.size() > shown.size() ? ", ..." : ""));
}

absl::Status EnsureData(Context& context, Client& client,
                        const std::string& name, const DataOptions& options) {
  if (options.file.empty()) return absl::OkStatus();
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "--data needs a name for the dataset: set data.dataset in the job "
        "file");
  }
  const absl::StatusOr<DatasetUpload> upload =
      MakeUpload(client, name, options);
  if (!upload.ok()) return upload.status();
  SayLeftOut(context, *upload);
  const absl::StatusOr<EnsuredDataset> ensured =
      EnsureDataset(client, *upload, UploadLine(context, name));
  ClearUploadLine(context);
  if (!ensured.ok()) return ensured.status();
  context.Say(absl::StrCat("dataset ", name,
                           ensured->uploaded ? ": uploaded, " : ": present, ",
                           GroupDigits(ensured->dataset.rows()),
                           ensured->dataset.rows() == 1 ? " row" : " rows"));
  return absl::OkStatus();
}

}  // namespace gpupool::client
