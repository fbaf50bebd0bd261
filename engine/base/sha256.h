// SHA-256 (FIPS 180-4) by OpenSSL's libcrypto. Blobs are named by it.
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

  // Returns the digest as 64 lower-case hex digits and resets: the next Update
  // starts a new digest.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Returns the digest of `data` in hex.
std::string Sha256Hex(std::string_view data);

// Returns the digest of the file's bytes in hex. NOT_FOUND when the file cannot
// be opened, INTERNAL on a read error.
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);

// Returns whether `text` has the form of a digest: 64 lower-case hex digits.
// Check this before a name from outside is used as a file name.
bool IsSha256Hex(std::string_view text);

}  // namespace gpupool::engine
