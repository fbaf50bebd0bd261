#include "client/files/local_file.h"

#include <openssl/evp.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

constexpr size_t kChunkBytes = 1 << 20;  // the most that the server accepts

}  // namespace

absl::StatusOr<LocalFile> LocalFile::Open(const std::string& path) {
  // Before opening, which could wait for ever: for the writer of a pipe.
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (!error && type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is no regular file, and only those are uploaded: write "
                     "what it yields to a file first"));
  }
  Handle handle(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (handle == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  return LocalFile(path, std::move(handle));
}

absl::Status LocalFile::ReadChunk(std::string& chunk) {
  chunk.resize(kChunkBytes);
  chunk.resize(std::fread(chunk.data(), 1, chunk.size(), handle_.get()));
  if (!std::ferror(handle_.get())) return absl::OkStatus();
  if (errno == EISDIR) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " is a folder; name a file in it"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
}

absl::Status LocalFile::Seek(uint64_t place) {
  if (fseeko(handle_.get(), static_cast<off_t>(place), SEEK_SET) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
}

absl::StatusOr<FileFacts> DescribeFile(const std::string& path) {
  absl::StatusOr<LocalFile> file = LocalFile::Open(path);
  if (!file.ok()) return file.status();
  return DescribeChunks(
      path, [&file](std::string& chunk) { return file->ReadChunk(chunk); });
}

absl::StatusOr<FileFacts> DescribeChunks(const std::string& name,
                                         const ChunkReader& read_chunk) {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest(EVP_MD_CTX_new(),
                                                            &EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  FileFacts facts;
  std::string chunk;
  do {
    absl::Status read = read_chunk(chunk);
    if (!read.ok()) return read;
    EVP_DigestUpdate(digest.get(), chunk.data(), chunk.size());
    facts.bytes += chunk.size();
  } while (!chunk.empty());
  if (facts.bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is empty"));
  }
  std::string bytes(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  EVP_DigestFinal_ex(digest.get(),
                     reinterpret_cast<unsigned char*>(bytes.data()), &size);
  bytes.resize(size);
  facts.sha256 = absl::BytesToHexString(bytes);
  return facts;
}

}  // namespace gpupool::client
