#include "engine/data/dataset_reader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/data_file_name.h"
#include "engine/base/image_limits.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/base/text_limits.h"
#include "engine/data/array_reader.h"
#include "engine/data/audio_reader.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/csv_reader.h"
#include "engine/data/idx_reader.h"
#include "engine/data/image_reader.h"
#include "engine/data/json_lines_reader.h"
#include "engine/data/mapped_file.h"
#include "engine/data/npy_reader.h"
#include "engine/data/npz_reader.h"
#include "engine/data/text_reader.h"

namespace gpupool::engine {
namespace {

enum class Digest : uint8_t { kCheck, kTrust };

// Opens the blob of one dataset file.
absl::StatusOr<std::shared_ptr<const MappedFile>> OpenBlob(
    const v1::DatasetFile& file, const std::string& blob_dir, Digest digest) {
  // The digest becomes a file name, so it must not contain a path.
  if (!IsSha256Hex(file.sha256())) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.file_name(), ": sha256 is not 64 lower-case hex digits"));
  }
  auto mapped = MappedFile::Open(absl::StrCat(blob_dir, "/", file.sha256()));
  if (!mapped.ok()) {
    return absl::Status(mapped.status().code(),
                        absl::StrCat(file.file_name(), ": blob ", file.sha256(),
                                     " cannot be opened"));
  }
  // Finds blobs that were damaged on disk before they are parsed.
  if (digest == Digest::kCheck && Sha256Hex(mapped->bytes()) != file.sha256()) {
    return absl::DataLossError(absl::StrCat(
        file.file_name(), ": the stored bytes do not match sha256 ",
        file.sha256(), "; upload the dataset again"));
  }
  return std::make_shared<const MappedFile>(*std::move(mapped));
}

absl::StatusOr<const v1::DatasetFile*> FileOfRole(
    const std::vector<v1::DatasetFile>& files, v1::DatasetFile::Role role) {
  for (const v1::DatasetFile& file : files) {
    if (file.role() == role) return &file;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the dataset has no file with role ", v1::DatasetFile::Role_Name(role)));
}

absl::StatusOr<const v1::DatasetFile*> OnlyFile(
    const std::vector<v1::DatasetFile>& files, const char* format) {
  if (files.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        format, " datasets have one file; this one has ", files.size()));
  }
  return &files[0];
}

MissingRule ToMissingRule(v1::DatasetLayout::Missing missing) {
  switch (missing) {
    case v1::DatasetLayout::MEAN:
      return MissingRule::kMean;
    case v1::DatasetLayout::ZERO:
      return MissingRule::kZero;
    case v1::DatasetLayout::DROP_ROW:
      return MissingRule::kDropRow;
    default:
      return MissingRule::kRefuse;
  }
}

CsvOptions ToCsvOptions(const v1::DatasetLayout& layout) {
  CsvOptions options;
  if (layout.has_label_column()) options.label_column = layout.label_column();
  options.label_columns.assign(layout.label_columns().begin(),
                               layout.label_columns().end());
  options.label_names.assign(layout.label_names().begin(),
                             layout.label_names().end());
  options.has_header = layout.has_header();
  options.missing = ToMissingRule(layout.missing());
  if (layout.text() == v1::DatasetLayout::ONE_HOT) {
    options.text = TextRule::kOneHot;
  }
  if (layout.text() == v1::DatasetLayout::BYTES) {
    options.text = TextRule::kBytes;
    options.text_length = layout.text_length();
  }
  options.text_columns.assign(layout.text_columns().begin(),
                              layout.text_columns().end());
  options.skipped_columns.assign(layout.skipped_columns().begin(),
                                 layout.skipped_columns().end());
  for (const v1::ColumnCategories& column : layout.categories()) {
    options.categories[column.column()].assign(column.values().begin(),
                                               column.values().end());
  }
  return options;
}

// Returns whether a file of the format CSV has JSON lines. The bytes decide.
// Only a new file goes by its name, too, so that its errors are those of JSON.
bool HasJsonLines(const v1::DatasetFile& file, std::string_view bytes,
                  const ReadLimits& limits) {
  return BeginsWithObject(bytes) ||
         (limits.is_new && IsJsonLinesName(file.file_name()));
}

absl::StatusOr<Table> ReadCsvDataset(const v1::DatasetLayout& layout,
                                     const std::vector<v1::DatasetFile>& files,
                                     const std::string& blob_dir,
                                     const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const v1::DatasetFile* file, OnlyFile(files, "CSV"));
  ASSIGN_OR_RETURN(const auto blob, OpenBlob(*file, blob_dir, Digest::kCheck));
  CsvOptions options = ToCsvOptions(layout);
  if (options.text == TextRule::kBytes &&
      (options.text_length < 1 || options.text_length > kMaxTextLength)) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.text_length is ", options.text_length,
                     "; text: BYTES needs 1 to ", kMaxTextLength));
  }
  options.whole_header = limits.is_new;
  const std::string_view bytes(blob->bytes().data(), blob->bytes().size());
  auto table = HasJsonLines(*file, bytes, limits)
                   ? ReadJsonLines(bytes, options, limits)
                   : ReadCsv(bytes, options, limits);
  if (!table.ok()) return AtPlace(file->file_name(), table.status());
  return table;
}

absl::StatusOr<ImageOptions> ToImageOptions(const v1::DatasetLayout& layout) {
  ImageOptions options = {
      .size = {layout.image_width(), layout.image_height()}};
  const bool none = options.size.width == 0 && options.size.height == 0;
  const auto [least, most] =
      std::minmax(options.size.width, options.size.height);
  if (!none && (least < 1 || most > kMaxImageRowSide)) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.image_height and image_width are ",
                     options.size.height, " and ", options.size.width,
                     "; both are 0, or 1 to ", kMaxImageRowSide));
  }
  if (layout.image_channels() != 0) options.channels = layout.image_channels();
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat("layout.image_channels is ",
                                                   options.channels,
                                                   "; 1 and 3 are possible"));
  }
  if (layout.image_fit() == v1::DatasetLayout::STRETCH) {
    options.fit = ImageFit::kStretch;
  }
  for (const v1::ColumnCategories& column : layout.categories()) {
    options.classes.assign(column.values().begin(), column.values().end());
  }
  return options;
}

// The archives of a dataset, and the blobs that hold their bytes.
struct Archives {
  std::vector<std::shared_ptr<const MappedFile>> blobs;
  std::vector<SampleArchive> archives;
};

absl::StatusOr<Archives> OpenArchives(const std::vector<v1::DatasetFile>& files,
                                      const std::string& blob_dir) {
  Archives opened;
  for (const v1::DatasetFile& file : files) {
    ASSIGN_OR_RETURN(auto blob, OpenBlob(file, blob_dir, Digest::kCheck));
    const auto bytes = blob->bytes();
    opened.blobs.push_back(std::move(blob));
    opened.archives.push_back({file.file_name(), {bytes.data(), bytes.size()}});
  }
  return opened;
}

absl::StatusOr<Table> ReadImageDataset(
    const v1::DatasetLayout& layout, const std::vector<v1::DatasetFile>& files,
    const std::string& blob_dir, const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const ImageOptions options, ToImageOptions(layout));
  ASSIGN_OR_RETURN(const Archives opened, OpenArchives(files, blob_dir));
  return ReadImages(opened.archives, options, limits);
}

absl::StatusOr<Table> ReadAudioDataset(
    const v1::DatasetLayout& layout, const std::vector<v1::DatasetFile>& files,
    const std::string& blob_dir, const ReadLimits& limits) {
  AudioOptions options = {.samples = layout.audio().samples(),
                          .seconds = layout.audio().seconds(),
                          .rate = layout.audio().rate(),
                          .classes = {}};
  for (const v1::ColumnCategories& column : layout.categories()) {
    options.classes.assign(column.values().begin(), column.values().end());
  }
  ASSIGN_OR_RETURN(const Archives opened, OpenArchives(files, blob_dir));
  return ReadAudio(opened.archives, options, limits);
}

absl::StatusOr<Table> ReadTextDataset(const v1::DatasetLayout& layout,
                                      const std::vector<v1::DatasetFile>& files,
                                      const std::string& blob_dir,
                                      const ReadLimits& limits) {
  std::vector<std::shared_ptr<const MappedFile>> blobs;
  std::vector<TextFile> texts;
  std::optional<TextFile> tokenizer;
  for (const v1::DatasetFile& file : files) {
    ASSIGN_OR_RETURN(blobs.emplace_back(),
                     OpenBlob(file, blob_dir, Digest::kCheck));
    TextFile opened = {file.file_name(), blobs.back()->bytes()};
    if (file.role() == v1::DatasetFile::TOKENIZER) {
      tokenizer = std::move(opened);
    } else {
      texts.push_back(std::move(opened));
    }
  }
  if (tokenizer.has_value()) return ReadPieces(texts, *tokenizer, limits);
  std::vector<std::string> tokens;
  for (const v1::ColumnCategories& column : layout.categories()) {
    tokens.assign(column.values().begin(), column.values().end());
  }
  return ReadText(texts, tokens, limits);
}

// Returns the bytes in memory of a table of rows with `row_bytes` that is
// unpacked: 0 if it goes to the disk.
absl::StatusOr<uint64_t> UnpackedBytes(uint64_t rows, uint64_t row_bytes,
                                       const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   CheckedTableBytes(rows, row_bytes, limits));
  const bool on_disk =
      bytes > limits.memory_bytes && !limits.unpack_dir.empty();
  return on_disk ? 0 : bytes;
}

// Returns the bytes of a token of a text.
uint64_t TokenBytes(const v1::Dataset& dataset) {
  switch (dataset.feature_type()) {
    case v1::INT32:
      return sizeof(int32_t);
    case v1::UINT16:
      return sizeof(uint16_t);
    default:
      // Older servers did not tell the type.
      return dataset.layout().categories().empty() ? 1 : sizeof(uint16_t);
  }
}

NpzOptions ToNpzOptions(const v1::DatasetLayout& layout) {
  NpzOptions options;
  if (!layout.features_array().empty()) {
    options.features_array = layout.features_array();
  }
  if (!layout.labels_array().empty()) {
    options.labels_array = layout.labels_array();
  }
  options.input_arrays.insert(layout.input_arrays().begin(),
                              layout.input_arrays().end());
  options.target_arrays.insert(layout.target_arrays().begin(),
                               layout.target_arrays().end());
  return options;
}

// The stored files of a dataset.
struct Stored {
  const v1::DatasetLayout& layout;
  const std::vector<v1::DatasetFile>& files;
  const std::string& blob_dir;
  Digest digest;
};

// Arrays, the files that their streams read, and the files' names for errors.
struct ArrayFiles {
  OpenArrays arrays;
  std::vector<std::shared_ptr<const MappedFile>> blobs;
  std::string names;
};

absl::StatusOr<ArrayFiles> OpenNpzFile(const Stored& stored) {
  ASSIGN_OR_RETURN(const v1::DatasetFile* file, OnlyFile(stored.files, "NPZ"));
  ASSIGN_OR_RETURN(auto blob, OpenBlob(*file, stored.blob_dir, stored.digest));
  auto arrays = OpenNpz({blob->bytes().data(), blob->bytes().size()},
                        ToNpzOptions(stored.layout), blob);
  if (!arrays.ok()) return AtPlace(file->file_name(), arrays.status());
  return ArrayFiles{*std::move(arrays), {std::move(blob)}, file->file_name()};
}

using HeaderReader = absl::StatusOr<ArrayHeader> (*)(ByteStream&);

// Opens a dataset of two files: features and labels.
absl::StatusOr<ArrayFiles> OpenArrayPair(const Stored& stored,
                                         HeaderReader read_header) {
  ArrayFiles result;
  const auto open = [&](v1::DatasetFile::Role role, const char* title,
                        std::vector<OpenArray>& to) -> absl::Status {
    ASSIGN_OR_RETURN(const v1::DatasetFile* file,
                     FileOfRole(stored.files, role));
    ASSIGN_OR_RETURN(auto blob,
                     OpenBlob(*file, stored.blob_dir, stored.digest));
    std::unique_ptr<ByteStream> stream = OpenByteStream(blob->bytes());
    auto header = read_header(*stream);
    if (!header.ok()) return AtPlace(file->file_name(), header.status());
    to.push_back({.header = *std::move(header),
                  .stream = stream.get(),
                  .title = title,
                  .file = blob});
    result.arrays.streams.push_back(std::move(stream));
    result.blobs.push_back(std::move(blob));
    absl::StrAppend(&result.names, result.names.empty() ? "" : ", ",
                    file->file_name());
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(
      open(v1::DatasetFile::FEATURES, "features", result.arrays.inputs));
  RETURN_IF_ERROR(
      open(v1::DatasetFile::LABELS, "labels", result.arrays.targets));
  return result;
}

absl::StatusOr<v1::DatasetFormat> FormatOf(
    const v1::DatasetLayout& layout,
    const std::vector<v1::DatasetFile>& files) {
  if (files.empty()) {
    return absl::InvalidArgumentError("the dataset has no files");
  }
  v1::DatasetFormat format = layout.format();
  if (format == v1::DATASET_FORMAT_UNSPECIFIED) {
    format = FormatOfFileName<v1::DatasetFormat>(files[0].file_name());
  }
  if (format == v1::DATASET_FORMAT_UNSPECIFIED) {
    return absl::InvalidArgumentError(absl::StrCat(
        files[0].file_name(),
        ": the format is not known by the name's ending; set layout.format "
        "to CSV, IDX, NPY, NPZ, IMAGES, AUDIO or TEXT"));
  }
  const bool named =
      !layout.input_arrays().empty() || !layout.target_arrays().empty();
  if (named && format != v1::NPZ) {
    return absl::InvalidArgumentError(
        absl::StrCat(files[0].file_name(),
                     ": layout.input_arrays and target_arrays are for "
                     "NPZ archives, but the format is ",
                     v1::DatasetFormat_Name(format)));
  }
  return format;
}

absl::StatusOr<ArrayFiles> OpenArraysOf(const Stored& stored,
                                        v1::DatasetFormat format) {
  if (format == v1::NPZ) return OpenNpzFile(stored);
  return OpenArrayPair(stored,
                       format == v1::IDX ? &ReadIdxHeader : &ReadNpyHeader);
}

// Puts the names of the files in front of an error.
template <typename Result>
absl::StatusOr<Result> InFiles(const ArrayFiles& files,
                               absl::StatusOr<Result> result) {
  if (result.ok()) return result;
  return AtPlace(files.names, result.status());
}

}  // namespace

absl::StatusOr<Table> ReadDataset(const v1::DatasetLayout& layout,
                                  const std::vector<v1::DatasetFile>& files,
                                  const std::string& blob_dir,
                                  const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const v1::DatasetFormat format, FormatOf(layout, files));
  if (format == v1::CSV) {
    return ReadCsvDataset(layout, files, blob_dir, limits);
  }
  if (format == v1::IMAGES) {
    return ReadImageDataset(layout, files, blob_dir, limits);
  }
  if (format == v1::AUDIO) {
    return ReadAudioDataset(layout, files, blob_dir, limits);
  }
  if (format == v1::TEXT) {
    return ReadTextDataset(layout, files, blob_dir, limits);
  }
  ASSIGN_OR_RETURN(
      const ArrayFiles opened,
      OpenArraysOf({layout, files, blob_dir, Digest::kCheck}, format));
  return InFiles(opened, TableFromArrays(opened.arrays.inputs,
                                         opened.arrays.targets, limits));
}

absl::StatusOr<uint64_t> HostDataBytes(const v1::Dataset& dataset,
                                       const std::string& blob_dir,
                                       const ReadLimits& limits) {
  if (dataset.has_synthetic()) {
    ASSIGN_OR_RETURN(const uint64_t features,
                     CheckedElementCount({dataset.feature_shape().begin(),
                                          dataset.feature_shape().end()}));
    ASSIGN_OR_RETURN(const uint64_t table,
                     CheckedTableBytes(dataset.rows(),
                                       (features + 1) * sizeof(float), limits));
    // The rows are made whole before they become columns.
    return 2 * table;
  }
  const std::vector<v1::DatasetFile> files(dataset.files().begin(),
                                           dataset.files().end());
  ASSIGN_OR_RETURN(const v1::DatasetFormat format,
                   FormatOf(dataset.layout(), files));
  if (format == v1::TEXT) {
    // Features and labels are the same bytes.
    return UnpackedBytes(dataset.rows(), TokenBytes(dataset), limits);
  }
  if (format == v1::AUDIO) {
    ASSIGN_OR_RETURN(const uint64_t samples,
                     CheckedElementCount({dataset.feature_shape().begin(),
                                          dataset.feature_shape().end()}));
    return UnpackedBytes(dataset.rows(),
                         samples * sizeof(float) + sizeof(int64_t), limits);
  }
  if (format == v1::CSV || format == v1::IMAGES) {
    ASSIGN_OR_RETURN(const uint64_t features,
                     CheckedElementCount({dataset.feature_shape().begin(),
                                          dataset.feature_shape().end()}));
    if (format == v1::IMAGES) {
      // Numbers of 8 bits, and a class of 64.
      return UnpackedBytes(dataset.rows(), features + sizeof(int64_t), limits);
    }
    const uint64_t numbers = features + LabelFactsOf(dataset).numbers();
    return UnpackedBytes(dataset.rows(), numbers * sizeof(float), limits);
  }
  ASSIGN_OR_RETURN(
      const ArrayFiles opened,
      OpenArraysOf({dataset.layout(), files, blob_dir, Digest::kTrust},
                   format));
  return InFiles(
      opened, HostBytes(opened.arrays.inputs, opened.arrays.targets, limits));
}

}  // namespace gpupool::engine
