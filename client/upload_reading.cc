#include "client/upload_reading.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/text/quote.h"

namespace gpupool::client {
namespace {

// Asks the server for its limits. The answer is empty if it has none to tell.
absl::StatusOr<v1::ServerInfo> AskLimits(Client& client) {
  absl::StatusOr<v1::ServerInfo> info = client.GetServerInfo({});
  if (!info.ok() && !absl::IsUnavailable(info.status())) {
    return v1::ServerInfo();
  }
  return info;
}

bool IsLong(const FileSize& file) { return file.bytes >= kLongFileBytes; }

const FileSize& Largest(absl::Span<const FileSize> files) {
  return *std::max_element(
      files.begin(), files.end(),
      [](const FileSize& a, const FileSize& b) { return a.bytes < b.bytes; });
}

}  // namespace

FileSize SizeOfFile(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  return {path, error ? 0 : bytes};
}

absl::Status CheckDatasetSize(Client& client,
                              absl::Span<const FileSize> files) {
  if (std::none_of(files.begin(), files.end(), IsLong)) return absl::OkStatus();
  const absl::StatusOr<v1::ServerInfo> info = AskLimits(client);
  if (!info.ok()) return info.status();
  const uint64_t limit = info->dataset_limit_bytes();
  if (limit == 0) return absl::OkStatus();
  // Sizes may be hostile, so they are subtracted and never added.
  uint64_t left = limit;
  for (const FileSize& file : files) {
    if (file.bytes <= left) {
      left -= file.bytes;
      continue;
    }
    const FileSize& largest = Largest(files);
    return absl::ResourceExhaustedError(absl::StrCat(
        "the dataset is larger than this server's limit of ", limit,
        " bytes (file ", Printable(largest.name), " has ", largest.bytes,
        "); divide it into several datasets, or start gpupoold with a larger "
        "--dataset-limit"));
  }
  return absl::OkStatus();
}

absl::Status CheckModelFileSizes(Client& client,
                                 absl::Span<const FileSize> files) {
  if (std::none_of(files.begin(), files.end(), IsLong)) return absl::OkStatus();
  const absl::StatusOr<v1::ServerInfo> info = AskLimits(client);
  if (!info.ok()) return info.status();
  const uint64_t limit = info->model_limit_bytes();
  const FileSize& largest = Largest(files);
  if (limit == 0 || largest.bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the file ", Printable(largest.name), " has ", largest.bytes,
                   " bytes, this server takes at most ", limit,
                   "; start gpupoold with a larger --model-limit"));
}

absl::StatusOr<FileFacts> DescribeForUpload(const Client& client,
                                            const FileSize& file,
                                            const ChunkReader& chunks) {
  const ClientOptions& options = client.options();
  const bool tells = options.upload_reading && IsLong(file);
  uint64_t read = 0;
  uint64_t told_percent = 0;
  return DescribeChunks(file.name, [&](std::string& chunk) -> absl::Status {
    if (options.upload_stop.stop_requested()) {
      return absl::CancelledError(absl::StrCat(
          "the upload was interrupted while ", file.name, " was read"));
    }
    absl::Status status = chunks(chunk);
    if (!status.ok() || !tells) return status;
    // A file may grow while it is read.
    read = std::min(read + chunk.size(), file.bytes);
    const auto percent = static_cast<uint64_t>(
        100.0 * static_cast<double>(read) / static_cast<double>(file.bytes));
    if (percent > told_percent) {
      told_percent = percent;
      options.upload_reading(file.name, read, file.bytes);
    }
    return status;
  });
}

absl::StatusOr<FileFacts> DescribeForUpload(const Client& client,
                                            const std::string& path) {
  absl::StatusOr<LocalFile> file = LocalFile::Open(path);
  if (!file.ok()) return file.status();
  return DescribeForUpload(
      client, SizeOfFile(path),
      [&file](std::string& chunk) { return file->ReadChunk(chunk); });
}

}  // namespace gpupool::client
