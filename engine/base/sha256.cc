#include "engine/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace gpupool::engine {

struct Sha256::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    GPUPOOL_CHECK(evp != nullptr);
    Start();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  void Start() { GPUPOOL_CHECK(EVP_DigestInit_ex(evp, EVP_sha256(), nullptr)); }
  EVP_MD_CTX* evp;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(const void* data, size_t bytes) {
  GPUPOOL_CHECK(EVP_DigestUpdate(context_->evp, data, bytes));
}

std::string Sha256::FinishHex() {
  std::array<unsigned char, 32> digest;
  unsigned int size = 0;
  GPUPOOL_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size));
  GPUPOOL_CHECK(size == digest.size());
  // Libcrypto takes no bytes after the end until a new start.
  context_->Start();
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (unsigned char byte : digest) {
    text.push_back(kHex[byte >> 4]);
    text.push_back(kHex[byte & 15]);
  }
  return text;
}

std::string Sha256Hex(std::string_view data) {
  Sha256 sha;
  sha.Update(data);
  return sha.FinishHex();
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path));
  }
  Sha256 sha;
  std::vector<char> buffer(1 << 18);
  while (size_t bytes =
             std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    sha.Update(buffer.data(), bytes);
  }
  if (std::ferror(file.get())) {
    return absl::InternalError(absl::StrCat("cannot read ", path));
  }
  return sha.FinishHex();
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace gpupool::engine
