#include "tls/tls_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tls/openssl_handles.h"
#include "tls/pem.h"

namespace gpupool::tls {
namespace {

constexpr size_t kMostBytes = 1 << 20;

enum class Secrecy { kPublic, kSecret };

// A descriptor that is closed at the end.
class OpenedFile {
 public:
  // Does not wait for the writer of a pipe.
  explicit OpenedFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenedFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

absl::Status CheckKind(const struct stat& facts, const std::string& path,
                       Secrecy secrecy) {
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no regular file"));
  }
  if (static_cast<size_t>(facts.st_size) > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", facts.st_size,
                     " bytes; a file in PEM form has at most ", kMostBytes));
  }
  if (secrecy == Secrecy::kSecret && (facts.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "others may read or change the key in %s, whose mode is %04o; make it "
        "private: chmod 600 %s",
        path, facts.st_mode & 07777, path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const std::string& path, Secrecy secrecy) {
  const OpenedFile file(path);
  struct stat facts = {};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &facts) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  const absl::Status kind = CheckKind(facts, path, secrecy);
  if (!kind.ok()) return kind;
  // Reads no more, even if the file grows meanwhile.
  std::string text(kMostBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count =
        ::read(file.descriptor(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    }
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

}  // namespace

absl::Status CheckComplete(const TlsFiles& files) {
  if (files.certificate.empty() && files.key.empty() &&
      files.client_ca.empty()) {
    return absl::OkStatus();
  }
  if (files.certificate.empty() || files.key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS needs tls-certificate and tls-key, but ",
                     files.certificate.empty() ? "tls-certificate" : "tls-key",
                     " is not set; `gpupool tls init` makes both files"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PemPair> ReadPair(const std::string& certificate_file,
                                 const std::string& key_file, absl::Time now) {
  auto certificate = ReadText(certificate_file, Secrecy::kPublic);
  if (!certificate.ok()) return certificate.status();
  const auto chain = ParseCertificates(*certificate, certificate_file);
  if (!chain.ok()) return chain.status();
  auto key_text = ReadText(key_file, Secrecy::kSecret);
  if (!key_text.ok()) return key_text.status();
  const auto key = ParseKey(*key_text, key_file);
  if (!key.ok()) return key.status();
  X509& own = *chain->front();
  const bool matches = X509_check_private_key(&own, key->get()) == 1;
  TakeOpenSslError();
  if (!matches) {
    return absl::FailedPreconditionError(
        absl::StrCat("the key in ", key_file,
                     " does not belong to the first certificate in ",
                     certificate_file, "; give files that were made together"));
  }
  const absl::Status valid = CheckValidity(own, now, certificate_file);
  if (!valid.ok()) return valid;
  return PemPair{*std::move(certificate), *std::move(key_text)};
}

absl::StatusOr<std::string> ReadAuthorities(const std::string& file,
                                            absl::Time now) {
  auto text = ReadText(file, Secrecy::kPublic);
  if (!text.ok()) return text.status();
  const auto all = ParseCertificates(*text, file);
  if (!all.ok()) return all.status();
  if (std::any_of(all->begin(), all->end(), [&](const CertificateHandle& one) {
        return CheckValidity(*one, now, file).ok();
      })) {
    return text;
  }
  return CheckValidity(*all->front(), now, file);
}

absl::StatusOr<ServerPem> ReadServerFiles(const TlsFiles& files,
                                          absl::Time now) {
  ServerPem contents;
  auto own = ReadPair(files.certificate, files.key, now);
  if (!own.ok()) return own.status();
  contents.own = *std::move(own);
  if (!files.client_ca.empty()) {
    auto authorities = ReadAuthorities(files.client_ca, now);
    if (!authorities.ok()) return authorities.status();
    contents.client_authorities = *std::move(authorities);
  }
  return contents;
}

}  // namespace gpupool::tls
