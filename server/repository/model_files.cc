#include "server/repository/model_files.h"

#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"

namespace gpupool::server {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

using TakePiece = std::function<absl::Status(absl::string_view)>;

std::string PathIn(const VersionFiles& files, const std::string& name) {
  return absl::StrCat(files.folder, "/", name);
}

absl::Status WrittenMeanwhile() {
  return absl::AbortedError(
      "was written while it was read; it is read again later");
}

// Passes all bytes on. Aborted when the file is not as the stamp says, before
// or after.
absl::Status ReadPieces(const VersionFiles& files, const FileStamp& stamp,
                        const TakePiece& take) {
  ASSIGN_OR_RETURN(const UniqueFd file,
                   files.root->OpenFile(PathIn(files, stamp.name)));
  ASSIGN_OR_RETURN(const FileStamp before, StampOf(file, stamp.name));
  if (before != stamp) return WrittenMeanwhile();
  std::vector<char> piece(kPieceBytes);
  uint64_t total = 0;
  while (true) {
    if (files.stop->load()) return absl::CancelledError("the server stops");
    const ssize_t count = read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "cannot be read");
    if (count == 0) break;
    total += static_cast<uint64_t>(count);
    if (total > stamp.bytes) return WrittenMeanwhile();
    RETURN_IF_ERROR(take({piece.data(), static_cast<size_t>(count)}));
  }
  ASSIGN_OR_RETURN(const FileStamp after, StampOf(file, stamp.name));
  return after == stamp && total == stamp.bytes ? absl::OkStatus()
                                                : WrittenMeanwhile();
}

absl::StatusOr<std::string> DigestOfFile(const VersionFiles& files,
                                         const FileStamp& stamp) {
  engine::Sha256 digest;
  RETURN_IF_ERROR(ReadPieces(files, stamp, [&](absl::string_view piece) {
    digest.Update({piece.data(), piece.size()});
    return absl::OkStatus();
  }));
  return digest.FinishHex();
}

absl::Status CheckSize(const VersionFiles& files, const FileStamp& stamp) {
  if (stamp.bytes <= files.limit_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(PathIn(files, stamp.name), " has ", stamp.bytes,
                   " bytes, this server takes at most ", files.limit_bytes,
                   "; start gpupoold with a larger --model-limit"));
}

absl::Status AddToSpec(const VersionFiles& files, const FileStamp& stamp,
                       v1::OnnxModel* onnx) {
  ASSIGN_OR_RETURN(const std::string digest, DigestOfFile(files, stamp));
  if (stamp.name == kModelFileName) {
    onnx->set_sha256(digest);
    onnx->set_bytes(stamp.bytes);
    return absl::OkStatus();
  }
  v1::ExternalFile* external = onnx->add_external_files();
  external->set_location(stamp.name);
  external->set_sha256(digest);
  external->set_bytes(stamp.bytes);
  return absl::OkStatus();
}

// Returns the digest that the spec has for the file.
std::string DigestIn(const v1::OnnxModel& onnx, const std::string& name) {
  for (const v1::ExternalFile& external : onnx.external_files()) {
    if (external.location() == name) return external.sha256();
  }
  return onnx.sha256();
}

absl::Status StoreOne(const VersionFiles& files, const FileStamp& stamp,
                      BlobWriter* writer) {
  RETURN_IF_ERROR(ReadPieces(files, stamp, [&](absl::string_view piece) {
    return writer->Append(piece);
  }));
  return writer->Commit();
}

}  // namespace

absl::StatusOr<v1::ModelSpec> SpecOfFiles(const VersionFiles& files) {
  for (const FileStamp& stamp : files.version->files) {
    RETURN_IF_ERROR(CheckSize(files, stamp));
  }
  v1::ModelSpec spec;
  for (const FileStamp& stamp : files.version->files) {
    RETURN_IF_ERROR(
        engine::AtPlace(PathIn(files, stamp.name),
                        AddToSpec(files, stamp, spec.mutable_onnx())));
  }
  return spec;
}

absl::Status StoreFiles(const VersionFiles& files, const v1::ModelSpec& spec,
                        const BlobStore& blobs) {
  for (const FileStamp& stamp : files.version->files) {
    // Written again even if it is there: an old blob that nothing refers to may
    // be swept away at any moment, and a new one is not.
    ASSIGN_OR_RETURN(
        const std::unique_ptr<BlobWriter> writer,
        blobs.Create(DigestIn(spec.onnx(), stamp.name), stamp.bytes));
    RETURN_IF_ERROR(engine::AtPlace(PathIn(files, stamp.name),
                                    StoreOne(files, stamp, writer.get())));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
