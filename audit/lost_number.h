// The number of records that a stop could not write, kept for the next start.
//
// The file has its bytes from the first start on, since it is written when the
// disk is full: most file systems overwrite in place.
//
//   file = number in decimal, kDigits digits, without a line break
//
// Thread-safety: none. Ownership: owns the open file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gpupool::audit {

// Name of the file in the folder of the log.
inline constexpr char kLostNumberName[] = ".lost-at-stop";

class LostNumber {
 public:
  static constexpr size_t kDigits = 20;

  LostNumber() = default;
  ~LostNumber();
  LostNumber(const LostNumber&) = delete;
  LostNumber& operator=(const LostNumber&) = delete;

  // Opens the file, or makes it with the number 0. A file with another form has
  // the number 0. Unavailable if the system refuses it.
  absl::Status Open(const std::string& folder);

  // Returns the number that is on the disk.
  uint64_t number() const { return number_; }

  // Blocks until the number is on the disk. Unavailable if the system refuses
  // it, FailedPrecondition if the file is not open.
  absl::Status Keep(uint64_t number);

 private:
  int file_ = -1;
  uint64_t number_ = 0;
};

}  // namespace gpupool::audit
