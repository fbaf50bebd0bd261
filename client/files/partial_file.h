// A file on this machine that appears complete or not at all. It is written
// under a temporary name beside its final name, synced and then renamed.
//
// Thread-safety: one thread for each object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

class PartialFile {
 public:
  // Begins the file `name`, or the one that a link of that name leads to.
  // InvalidArgument when something else has the name, such as a device.
  static absl::StatusOr<PartialFile> Create(const std::string& name);
  PartialFile(PartialFile&& other) noexcept;
  ~PartialFile();  // Removes the file, unless it got its name.

  // Appends bytes. Returns false if they could not be written. Close returns
  // the reason.
  bool Append(absl::string_view bytes);
  // Syncs the bytes to stable storage. ResourceExhausted if the disk is full.
  absl::Status Close();
  // Gives the file its name, after Close. Replaces an existing file.
  absl::Status Replace();
  // Gives the file its name, after Close. AlreadyExists if something has the
  // name.
  absl::Status Keep();

  uint64_t bytes() const { return bytes_; }
  // Returns the temporary path.
  const std::string& partial_path() const { return partial_; }

 private:
  using Handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  PartialFile(const std::string& path, std::string partial, Handle handle)
      : path_(path), partial_(std::move(partial)), handle_(std::move(handle)) {}

  std::string path_;
  std::string partial_;
  Handle handle_;
  uint64_t bytes_ = 0;
  int error_ = 0;
};

// Writes a whole file, which appears complete or not at all. Errors as from
// PartialFile.
absl::Status WriteWholeFile(const std::string& path, absl::string_view bytes);

}  // namespace gpupool::client
