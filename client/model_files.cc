#include "client/model_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/files/local_file.h"
#include "client/files/onnx_locations.h"
#include "client/files/partial_file.h"
#include "client/resumable_upload.h"
#include "client/upload_reading.h"

namespace gpupool::client {
namespace {

absl::StatusOr<std::set<std::string>> LocationsIn(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  }
  if (facts.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is empty"));
  }
  const auto bytes = static_cast<size_t>(facts.st_size);
  void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  const absl::Cleanup unmap = [&] { ::munmap(address, bytes); };
  auto locations =
      ExternalLocations({static_cast<const char*>(address), bytes});
  if (locations.ok()) return locations;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", locations.status().message()));
}

// Returns the path of an external file. Links that lead out of the model's
// folder are refused.
absl::StatusOr<std::string> ExternalPath(const std::string& model,
                                         const std::string& location) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::canonical(model, error).parent_path();
  const fs::path file = fs::canonical(folder / location, error);
  if (error) {
    std::error_code unknown;
    const bool is_link = fs::is_symlink(model, unknown);
    return absl::NotFoundError(absl::StrCat(
        model, " keeps data in '", location, "', which cannot be read",
        is_link
            ? absl::StrCat(" in ", folder.native(), ", where this link leads")
            : "",
        ": ", error.message(),
        is_link ? "; copy what the links stand for into one folder, as `cp -rL "
                  "FOLDER COPY` does, and name the model there"
                : ""));
  }
  const auto inside = fs::relative(file, folder, error).native();
  if (!error && inside.rfind("..", 0) != 0) return file.native();
  return absl::InvalidArgumentError(
      absl::StrCat(model, " keeps data in '", location,
                   "', which is a link out of the model's folder; copy the "
                   "file there"));
}

// Reads a file and returns its digest and size.
using DescribePath =
    std::function<absl::StatusOr<FileFacts>(const std::string& path)>;

struct SentFile {
  std::string path;
  std::string sha256;
  uint64_t bytes = 0;
};

// Receives the number of bytes of a file that were sent or skipped.
using FileProgress = std::function<void(uint64_t)>;

// Fills messages with the header of a file and then with its bytes.
class FileSource {
 public:
  FileSource(const SentFile& described, const FileProgress& sent,
             UploadTries& tries)
      : described_(described), sent_(sent), tries_(tries) {}

  // Asks where the file begins. Call it first.
  absl::Status Begin() {
    tries_.Start();
    absl::StatusOr<v1::UploadPart> part =
        tries_.PartOf(described_.path, {described_.bytes, described_.sha256});
    if (!part.ok()) return part.status();
    part_ = *std::move(part);
    done_ = part_.offset();
    return absl::OkStatus();
  }

  uint64_t done() const { return done_; }

  // Returns false after the last message.
  absl::StatusOr<bool> Next(v1::UploadModelFileRequest& message) {
    const absl::Status stop = tries_.CheckStop();
    if (!stop.ok()) return stop;
    if (!file_.has_value()) return Open(*message.mutable_header());
    const absl::Status read = file_->ReadChunk(*message.mutable_chunk());
    if (!read.ok()) return read;
    const uint64_t count = message.chunk().size();
    done_ += count;
    if (done_ > described_.bytes || (count == 0 && done_ < described_.bytes)) {
      return absl::DataLossError(absl::StrCat(
          described_.path, " changed while it was uploaded: it had ",
          described_.bytes, " bytes; upload it again"));
    }
    if (count > 0) sent_(done_);
    return count > 0;
  }

 private:
  absl::StatusOr<bool> Open(v1::UploadModelFileRequest::Header& header) {
    absl::StatusOr<LocalFile> file = LocalFile::Open(described_.path);
    if (!file.ok()) return file.status();
    const absl::Status sought = file->Seek(part_.offset());
    if (!sought.ok()) return sought;
    file_ = *std::move(file);
    header.set_sha256(described_.sha256);
    header.set_total_bytes(described_.bytes);
    *header.mutable_part() = part_;
    return true;
  }

  const SentFile& described_;
  const FileProgress& sent_;
  UploadTries& tries_;
  v1::UploadPart part_;
  std::optional<LocalFile> file_;
  uint64_t done_ = 0;
};

absl::Status SendFileOnce(Client& client, FileSource& source) {
  const absl::Status begun = source.Begin();
  if (!begun.ok()) return begun;
  return client
      .StreamModelFile([&source](v1::UploadModelFileRequest& message) {
        return source.Next(message);
      })
      .status();
}

absl::Status SendFile(Client& client, const SentFile& file,
                      const FileProgress& sent) {
  UploadTries tries(client);
  while (true) {
    FileSource source(file, sent, tries);
    absl::Status status = SendFileOnce(client, source);
    if (status.ok() || !tries.Again(status, source.done())) return status;
  }
}

// Uploads the file of `weights` and replaces its path by its description.
absl::Status UploadWeights(Client& client, const std::string& base,
                           const UploadProgress& progress,
                           v1::WeightsFile& weights) {
  const std::string path =
      (std::filesystem::path(base) / weights.file()).native();
  const absl::Status checked = CheckModelFileSizes(client, {SizeOfFile(path)});
  if (!checked.ok()) return checked;
  const absl::StatusOr<FileFacts> facts = DescribeForUpload(client, path);
  if (!facts.ok()) return facts.status();
  const absl::Status sent =
      SendFile(client, {path, facts->sha256, facts->bytes}, [&](uint64_t done) {
        if (progress) progress(done, facts->bytes);
      });
  if (!sent.ok()) return sent;
  weights.clear_file();
  weights.set_sha256(facts->sha256);
  weights.set_bytes(facts->bytes);
  return absl::OkStatus();
}

// Checks the sizes of an ONNX file and of its external files, before they are
// read.
absl::Status CheckOnnxSizes(Client& client, const std::string& path,
                            const std::set<std::string>& locations) {
  std::vector<FileSize> sizes = {SizeOfFile(path)};
  for (const std::string& location : locations) {
    const auto external = ExternalPath(path, location);
    if (!external.ok()) return external.status();
    sizes.push_back(SizeOfFile(*external));
  }
  return CheckModelFileSizes(client, sizes);
}

// Describes an ONNX model by its files, which `describe` reads.
absl::StatusOr<v1::OnnxModel> DescribeModel(
    const std::string& path, const std::set<std::string>& locations,
    const DescribePath& describe) {
  const absl::StatusOr<FileFacts> facts = describe(path);
  if (!facts.ok()) return facts.status();
  v1::OnnxModel onnx;
  onnx.set_sha256(facts->sha256);
  onnx.set_bytes(facts->bytes);
  for (const std::string& location : locations) {
    const auto external = ExternalPath(path, location);
    if (!external.ok()) return external.status();
    const auto external_facts = describe(*external);
    if (!external_facts.ok()) return external_facts.status();
    v1::ExternalFile* file = onnx.add_external_files();
    file->set_location(location);
    file->set_sha256(external_facts->sha256);
    file->set_bytes(external_facts->bytes);
  }
  return onnx;
}

}  // namespace

absl::StatusOr<v1::OnnxModel> DescribeOnnx(const std::string& path) {
  const auto locations = LocationsIn(path);
  if (!locations.ok()) return locations.status();
  return DescribeModel(path, *locations, DescribeFile);
}

absl::StatusOr<v1::OnnxModel> UploadOnnx(Client& client,
                                         const std::string& path,
                                         const UploadProgress& progress) {
  const auto locations = LocationsIn(path);
  if (!locations.ok()) return locations.status();
  const absl::Status checked = CheckOnnxSizes(client, path, *locations);
  if (!checked.ok()) return checked;
  absl::StatusOr<v1::OnnxModel> onnx =
      DescribeModel(path, *locations, [&client](const std::string& file) {
        return DescribeForUpload(client, file);
      });
  if (!onnx.ok()) return onnx.status();
  std::vector<SentFile> files = {{path, onnx->sha256(), onnx->bytes()}};
  uint64_t total = onnx->bytes();
  for (const v1::ExternalFile& file : onnx->external_files()) {
    const auto external = ExternalPath(path, file.location());
    if (!external.ok()) return external.status();
    files.push_back({*external, file.sha256(), file.bytes()});
    total += file.bytes();
  }
  uint64_t earlier = 0;
  for (const SentFile& file : files) {
    const absl::Status sent = SendFile(client, file, [&](uint64_t done) {
      if (progress) progress(earlier + done, total);
    });
    if (!sent.ok()) return sent;
    earlier += file.bytes;
  }
  return onnx;
}

absl::Status UploadModelFiles(Client& client, const std::string& base,
                              const UploadProgress& progress,
                              v1::ModelSpec& model) {
  if (!model.weights().file().empty()) {
    const absl::Status sent =
        UploadWeights(client, base, progress, *model.mutable_weights());
    if (!sent.ok()) return sent;
  }
  if (model.onnx().file().empty()) return absl::OkStatus();
  const std::string path =
      (std::filesystem::path(base) / model.onnx().file()).native();
  absl::StatusOr<v1::OnnxModel> uploaded = UploadOnnx(client, path, progress);
  if (!uploaded.ok()) return uploaded.status();
  // The description from the upload replaces the path. All other fields stay.
  v1::OnnxModel& onnx = *model.mutable_onnx();
  onnx.clear_file();
  onnx.set_sha256(uploaded->sha256());
  onnx.set_bytes(uploaded->bytes());
  *onnx.mutable_external_files() = uploaded->external_files();
  return absl::OkStatus();
}

absl::StatusOr<v1::ModelVersion> UploadModel(
    Client& client, const v1::UploadModelRequest::Header& header) {
  bool is_sent = false;
  return client.StreamModel(
      [&](v1::UploadModelRequest& message) -> absl::StatusOr<bool> {
        if (is_sent) return false;
        *message.mutable_header() = header;
        is_sent = true;
        return true;
      });
}

absl::StatusOr<v1::ExportModelResponse::Header> ExportModel(
    Client& client, const v1::ExportModelRequest& request,
    const std::string& path, const UploadProgress& progress) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  v1::ExportModelResponse::Header header;
  absl::Status status =
      client.StreamExport(request, [&](const v1::ExportModelResponse& message) {
        if (message.has_header()) header = message.header();
        const bool written = file->Append(message.chunk());
        if (progress && file->bytes() > 0) {
          progress(file->bytes(), header.total_bytes());
        }
        return written;
      });
  if (status.ok()) status = file->Close();
  if (!status.ok()) return status;
  const absl::StatusOr<FileFacts> facts = DescribeFile(file->partial_path());
  if (!facts.ok() || facts->sha256 != header.sha256()) {
    return absl::DataLossError(
        absl::StrCat("the bytes that arrived for ", path,
                     " are not those that were sent; export again"));
  }
  status = file->Replace();
  if (!status.ok()) return status;
  return header;
}

}  // namespace gpupool::client
