// The options that describe a file of examples, shared by `datasets upload` and
// by `--data` of `run`, `submit` and `plan`, and the upload itself, with a
// progress line on a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command/context.h"
#include "client/upload.h"

namespace gpupool::client {

struct DataOptions {
  std::string file;  // or a folder of images or recordings
  std::string labels_file;
  std::vector<std::string> more_files;  // of samples or text
  std::optional<int> label_column;
  std::vector<std::string> label_columns;  // numbers or names
  bool has_header = false;
  std::string format;  // "csv", "jsonl", ...; empty: from the file's name
  std::string features_array;
  std::string labels_array;
  std::string missing;  // "mean", "zero", "drop-row"; empty: refuse
  std::string text;     // "one-hot", "bytes"; empty: index
  std::optional<uint32_t> text_length;    // with bytes
  std::string tokens;                     // a file of text's tokens, one a line
  std::string tokenizer;                  // a SentencePiece model for text
  std::vector<std::string> text_columns;  // names or numbers
  std::vector<std::string> skipped_columns;  // names or numbers
  std::string like;                  // a dataset whose categories are taken
  std::vector<std::string> inputs;   // "input_ids=ids"
  std::vector<std::string> targets;  // "label=y"
  std::string image_size;            // "224" or "HEIGHTxWIDTH"
  std::string image_fit;             // "stretch"; empty: crop
  bool grey = false;
  uint32_t audio_samples = 0;  // of a row; 0: not given
  double audio_seconds = 0;
  uint32_t audio_rate = 0;
};

// Adds --labels, --label-column, --label-columns, --header, --missing, --text,
// --text-length, --tokens, --tokenizer, --text-columns, --skip-columns, --like,
// --format,
// --features-array, --labels-array, --input, --target, --image-size,
// --image-fit, --grey, --audio-samples, --audio-seconds and --audio-rate.
void AddLayoutOptions(CLI::App& verb, DataOptions& options);

// Adds --data and the layout options.
void AddDataOption(CLI::App& verb, DataOptions& options);

// Returns the upload that the options describe. With options.like it has the
// categories of that dataset. NotFound if there is no such dataset,
// InvalidArgument if it has no text columns or an option is wrong, else the
// server's errors.
absl::StatusOr<DatasetUpload> MakeUpload(Client& client,
                                         const std::string& name,
                                         const DataOptions& options);

// Returns a callback that draws "uploading NAME [===>  ] 3.1 MiB of 9.8 MiB" on
// `err` if that is a terminal.
UploadProgress UploadLine(const Context& context, const std::string& name);
// Returns the same callback with the word "receiving".
UploadProgress DownloadLine(const Context& context, const std::string& name);
void ClearUploadLine(const Context& context);

// Tells on `err` which files of a folder of samples are left out, if any.
void SayLeftOut(const Context& context, const DatasetUpload& upload);

// Uploads options.file as the dataset `name` unless the server has it already,
// and reports on `err` what it did. Does nothing if options.file is empty.
// InvalidArgument if `name` is empty.
absl::Status EnsureData(Context& context, Client& client,
                        const std::string& name, const DataOptions& options);

}  // namespace gpupool::client
