// SHA-256 (FIPS 180-4) by OpenSSL's libcrypto: the names of all blobs.
//
// Sha256 is movable and not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gpupool::engine {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(const void* data, size_t bytes);
  void Update(std::string_view data) { Update(data.data(), data.size()); }

  // 64 lower-case hex digits. Ends the computation: the next Update starts a
  // new digest.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The digest of `data` in hex.
std::string Sha256Hex(std::string_view data);

// The digest of the file's bytes in hex. NotFound when it cannot be opened,
// Internal on a read error.
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);

// Whether `text` has the form of a digest: 64 lower-case hex digits. Check it
// before using a name from outside as a file name.
bool IsSha256Hex(std::string_view text);

}  // namespace gpupool::engine
