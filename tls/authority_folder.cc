#include "tls/authority_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tls/authority.h"
#include "tls/tls_files.h"

namespace gpupool::tls {
namespace {

// Lets machines whose clocks are a little behind accept a new certificate.
constexpr absl::Duration kSkew = absl::Hours(1);

absl::StatusOr<Validity> ValidityOf(const NewCertificate& options) {
  if (options.days < 1 || options.days > kMostDays) {
    return absl::InvalidArgumentError(
        absl::StrCat("a certificate is valid for 1 to ", kMostDays,
                     " days, not ", options.days));
  }
  return Validity{options.now - kSkew,
                  options.now + absl::Hours(24) * options.days};
}

absl::Status WriteAll(int descriptor, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "");
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (::fsync(descriptor) != 0) return absl::ErrnoToStatus(errno, "");
  return absl::OkStatus();
}

// Writes a file that does not exist. Leaves no part of it when it fails.
absl::Status WriteNew(const std::string& path, absl::string_view text,
                      mode_t mode) {
  const int descriptor = ::open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (descriptor < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(
        path,
        " exists and is not overwritten; take another name, or move it "
        "away first"));
  }
  if (descriptor < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  const absl::Status written = WriteAll(descriptor, text);
  ::close(descriptor);
  if (written.ok()) return written;
  ::unlink(path.c_str());
  return absl::Status(written.code(),
                      absl::StrCat("cannot write ", path, written.message()));
}

// Writes NAME.key and NAME.pem, or neither.
absl::Status WritePair(const std::string& folder, absl::string_view name,
                       const PemPair& pair) {
  const std::string key = absl::StrCat(folder, "/", name, ".key");
  const absl::Status written = WriteNew(key, pair.key, 0600);
  if (!written.ok()) return written;
  const absl::Status second =
      WriteNew(absl::StrCat(folder, "/", name, ".pem"), pair.certificate, 0644);
  if (!second.ok()) ::unlink(key.c_str());
  return second;
}

}  // namespace

absl::Status MakeAuthorityFolder(const std::string& folder,
                                 const std::vector<std::string>& hosts,
                                 const NewCertificate& options) {
  const auto validity = ValidityOf(options);
  if (!validity.ok()) return validity.status();
  const auto authority =
      MakeAuthority("gpupool authority", *ValidityOf({options.now, kMostDays}));
  if (!authority.ok()) return authority.status();
  const auto server = MakeServerPair(*authority, hosts, *validity);
  if (!server.ok()) return server.status();
  if (::mkdir(folder.c_str(), 0700) != 0) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(
          absl::StrCat(folder, " exists; name a folder that does not"));
    }
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot make the folder ", folder));
  }
  const absl::Status first = WritePair(folder, "ca", *authority);
  return first.ok() ? WritePair(folder, "server", *server) : first;
}

absl::Status AddClientTo(const std::string& folder, const std::string& name,
                         const NewCertificate& options) {
  const auto validity = ValidityOf(options);
  if (!validity.ok()) return validity.status();
  const auto authority = ReadPair(absl::StrCat(folder, "/ca.pem"),
                                  absl::StrCat(folder, "/ca.key"), options.now);
  if (!authority.ok()) return authority.status();
  const auto client = MakeClientPair(*authority, name, *validity);
  return client.ok() ? WritePair(folder, name, *client) : client.status();
}

}  // namespace gpupool::tls
