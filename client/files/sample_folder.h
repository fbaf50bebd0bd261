// A folder of images or of recordings as a tar archive that is made while it is
// read.
//
// Thread-safety: one thread for each object. Holds the names of the files and
// at most two chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/files/local_file.h"

namespace gpupool::client {

// The kind of the files in a folder.
enum class SampleKind : uint8_t {
  kImages,  // .jpg, .jpeg, .png
  kAudio,   // .wav, .flac
};

// Returns "image" or "recording".
absl::string_view NounOf(SampleKind kind);
// Returns ".jpg, .jpeg and .png" or ".wav and .flac".
absl::string_view EndingsOf(SampleKind kind);

// The files of a folder of samples.
struct SampleList {
  struct Entry {
    std::string name;  // relative to the folder: CLASS/NAME.jpg
    uint64_t bytes = 0;
  };
  std::string folder;
  SampleKind kind = SampleKind::kImages;
  std::vector<Entry> samples;         // sorted by name
  std::vector<std::string> left_out;  // files of other kinds, sorted
};

// Lists the images or the recordings below the folders of their classes.
// Hidden files and folders are left out without a word, and folders that are
// links with one. InvalidArgument, with the remedy, for a file that lies in no
// class, a class without files, both kinds, and no files at all.
absl::StatusOr<SampleList> ListSamples(const std::string& folder);

// Makes the archive. The same files give the same bytes, on every machine:
// names are sorted, and owners, modes and times are constant.
class SampleFolder {
 public:
  explicit SampleFolder(SampleList list) : list_(std::move(list)) {}

  // Reads the next bytes, at most 1 MiB. `chunk` is empty at the end. DataLoss
  // if a file has not the size any more that it had in the list.
  absl::Status ReadChunk(std::string& chunk);

 private:
  absl::Status OpenNext();
  // Adds the next part of the archive to `pending_`.
  absl::Status AddMore();

  SampleList list_;
  size_t next_ = 0;  // file to open next
  std::unique_ptr<LocalFile> file_;
  uint64_t left_ = 0;    // bytes of the file that were not read yet
  std::string pending_;  // bytes that were not handed out yet
  bool ended_ = false;
};

}  // namespace gpupool::client
