#include "engine/data/dataset_reader.h"

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/data/array_reader.h"
#include "engine/data/byte_stream.h"
#include "engine/data/csv_reader.h"
#include "engine/data/idx_reader.h"
#include "engine/data/mapped_file.h"
#include "engine/data/npy_reader.h"
#include "engine/data/npz_reader.h"

namespace gpupool::engine {
namespace {

// Opens the blob of one dataset file and checks its digest.
absl::StatusOr<MappedFile> OpenBlob(const v1::DatasetFile& file,
                                    const std::string& blob_dir) {
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
  if (Sha256Hex(mapped->bytes()) != file.sha256()) {
    return absl::DataLossError(absl::StrCat(
        file.file_name(), ": the stored bytes do not match sha256 ",
        file.sha256(), "; upload the dataset again"));
  }
  return mapped;
}

// Puts the user's file name in front of an error.
absl::Status InFile(const v1::DatasetFile& file, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(file.file_name(), ": ", status.message()));
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

absl::StatusOr<Table> ReadCsvDataset(const v1::DatasetLayout& layout,
                                     const std::vector<v1::DatasetFile>& files,
                                     const std::string& blob_dir,
                                     const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const v1::DatasetFile* file, OnlyFile(files, "CSV"));
  ASSIGN_OR_RETURN(const MappedFile blob, OpenBlob(*file, blob_dir));
  CsvOptions options;
  if (layout.has_label_column()) options.label_column = layout.label_column();
  options.label_columns.assign(layout.label_columns().begin(),
                               layout.label_columns().end());
  options.label_names.assign(layout.label_names().begin(),
                             layout.label_names().end());
  options.has_header = layout.has_header();
  std::unique_ptr<ByteStream> stream = OpenByteStream(blob.bytes());
  auto table = ReadCsv(*stream, options, limits);
  if (!table.ok()) return InFile(*file, table.status());
  return table;
}

absl::StatusOr<Table> ReadNpzDataset(const v1::DatasetLayout& layout,
                                     const std::vector<v1::DatasetFile>& files,
                                     const std::string& blob_dir,
                                     const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const v1::DatasetFile* file, OnlyFile(files, "NPZ"));
  ASSIGN_OR_RETURN(const MappedFile blob, OpenBlob(*file, blob_dir));
  NpzOptions options;
  if (!layout.features_array().empty()) {
    options.features_array = layout.features_array();
  }
  if (!layout.labels_array().empty()) {
    options.labels_array = layout.labels_array();
  }
  auto table =
      ReadNpz({blob.bytes().data(), blob.bytes().size()}, options, limits);
  if (!table.ok()) return InFile(*file, table.status());
  return table;
}

using HeaderReader = absl::StatusOr<ArrayHeader> (*)(ByteStream&);

// A blob that holds one array, opened and positioned at its first element.
struct ArrayFile {
  MappedFile blob;
  std::unique_ptr<ByteStream> stream;
  ArrayHeader header;
};

absl::StatusOr<ArrayFile> OpenArrayFile(const v1::DatasetFile& file,
                                        const std::string& blob_dir,
                                        HeaderReader read_header) {
  ASSIGN_OR_RETURN(MappedFile blob, OpenBlob(file, blob_dir));
  std::unique_ptr<ByteStream> stream = OpenByteStream(blob.bytes());
  auto header = read_header(*stream);
  if (!header.ok()) return InFile(file, header.status());
  return ArrayFile{std::move(blob), std::move(stream), *std::move(header)};
}

// Reads a dataset of two files: features and labels.
absl::StatusOr<Table> ReadArrayPair(const std::vector<v1::DatasetFile>& files,
                                    const std::string& blob_dir,
                                    HeaderReader read_header,
                                    const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const v1::DatasetFile* features_file,
                   FileOfRole(files, v1::DatasetFile::FEATURES));
  ASSIGN_OR_RETURN(const v1::DatasetFile* labels_file,
                   FileOfRole(files, v1::DatasetFile::LABELS));
  ASSIGN_OR_RETURN(const ArrayFile features,
                   OpenArrayFile(*features_file, blob_dir, read_header));
  ASSIGN_OR_RETURN(const ArrayFile labels,
                   OpenArrayFile(*labels_file, blob_dir, read_header));
  auto table = TableFromArrays({features.header, features.stream.get()},
                               {labels.header, labels.stream.get()}, limits);
  if (!table.ok()) {
    return absl::Status(
        table.status().code(),
        absl::StrCat(features_file->file_name(), ", ", labels_file->file_name(),
                     ": ", table.status().message()));
  }
  return table;
}

}  // namespace

v1::DatasetFormat FormatOfFileName(const std::string& file_name) {
  const std::string lower = absl::AsciiStrToLower(file_name);
  absl::string_view name = absl::StripSuffix(lower, ".gz");
  if (absl::EndsWith(name, ".csv")) return v1::CSV;
  if (absl::EndsWith(name, ".npy")) return v1::NPY;
  if (absl::EndsWith(name, ".npz")) return v1::NPZ;
  if (absl::EndsWith(name, ".idx") || absl::EndsWith(name, "-ubyte")) {
    return v1::IDX;
  }
  return v1::DATASET_FORMAT_UNSPECIFIED;
}

absl::StatusOr<Table> ReadDataset(const v1::DatasetLayout& layout,
                                  const std::vector<v1::DatasetFile>& files,
                                  const std::string& blob_dir,
                                  const ReadLimits& limits) {
  if (files.empty()) {
    return absl::InvalidArgumentError("the dataset has no files");
  }
  v1::DatasetFormat format = layout.format();
  if (format == v1::DATASET_FORMAT_UNSPECIFIED) {
    format = FormatOfFileName(files[0].file_name());
  }
  switch (format) {
    case v1::CSV:
      return ReadCsvDataset(layout, files, blob_dir, limits);
    case v1::NPZ:
      return ReadNpzDataset(layout, files, blob_dir, limits);
    case v1::IDX:
      return ReadArrayPair(files, blob_dir, &ReadIdxHeader, limits);
    case v1::NPY:
      return ReadArrayPair(files, blob_dir, &ReadNpyHeader, limits);
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          files[0].file_name(),
          ": the format is not known by the name's ending; set layout.format "
          "to CSV, IDX, NPY or NPZ"));
  }
}

}  // namespace gpupool::engine
