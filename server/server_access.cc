#include "server/server_access.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/audit_folder.h"
#include "audit/audit_log.h"
#include "engine/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/api/inference/shared_regions.h"
#include "server/auth/peer_user.h"
#include "server/auth/secret.h"
#include "server/config.h"
#include "server/control/upkeep/token_requests.h"
#include "server/metrics/metrics.h"
#include "server/state_dir.h"
#include "server/store/store.h"
#include "tls/pem.h"

namespace gpupool::server {
namespace {

using google::protobuf::util::TimeUtil;

// Label of the gauges of the records that wait.
constexpr char kAuditQueue[] = "audit";

constexpr absl::Duration kEndedTokensKept = absl::Hours(24 * 30);
// Linux has room for this path and its end.
constexpr size_t kMostSocketPath = sizeof(sockaddr_un::sun_path) - 1;

// Calls bind or connect for a new socket, which is closed again. Returns 0 or
// the error.
int TrySocket(const std::string& path,
              int (*call)(int, const sockaddr*, socklen_t)) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kMostSocketPath);
  const bool done = call(fd, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0;
  const int error = done ? 0 : errno;
  close(fd);
  return error;
}

// Removes the socket of a server that has ended.
absl::Status RemoveEndedSocket(const std::string& path) {
  struct stat file = {};
  if (lstat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the socket ", path,
                     ": the file there is no socket; choose another --socket"));
  }
  if (TrySocket(path, connect) != ECONNREFUSED) {
    return absl::FailedPreconditionError(
        absl::StrCat("another server listens at the socket ", path,
                     "; stop it, or choose another --socket"));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

absl::Status CheckLength(const std::string& path) {
  if (path.size() <= kMostSocketPath) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the path of the socket ", path, " has ", path.size(),
      " bytes, and at most ", kMostSocketPath,
      " are possible; choose a shorter --socket, or --socket none"));
}

// Takes the lock of a path. The file stays when the server ends: another server
// may hold it by then.
absl::StatusOr<UniqueFd> LockSocket(const std::string& path) {
  const std::string file = absl::StrCat(path, ".lock");
  UniqueFd lock(
      open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make ", file, ", the lock of the socket: ",
                     std::strerror(errno), "; choose another --socket"));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("cannot lock ", file, ": ",
                                               std::strerror(errno),
                                               "; choose another --socket"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "another server listens at the socket ", path, ", and holds ", file,
      "; stop it, or choose another "
      "--socket"));
}

// Checks that a socket can be made at the path.
absl::Status CheckSocket(const std::string& path) {
  RETURN_IF_ERROR(CheckLength(path));
  RETURN_IF_ERROR(RemoveEndedSocket(path));
  const int error = TrySocket(path, bind);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make the socket ", path,
                                               ": ", std::strerror(error),
                                               "; choose another --socket"));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

// Returns whether the token has worked at some time since `time`.
bool WorkedSince(const v1::Token& token, absl::Time time) {
  v1::Token before = token;
  if (token.has_revoke_time() &&
      absl::FromUnixMicros(
          TimeUtil::TimestampToMicroseconds(token.revoke_time())) > time) {
    before.clear_revoke_time();
  }
  return IsLive(before, time);
}

// Deletes the tokens that ended long ago from `tokens` and from the store.
absl::Status ForgetOld(Store* store, absl::Time now,
                       std::vector<v1::StoredToken>* tokens) {
  WriteBatch batch;
  const auto end = std::remove_if(
      tokens->begin(), tokens->end(), [&](const v1::StoredToken& stored) {
        if (WorkedSince(stored.token(), now - kEndedTokensKept)) return false;
        batch.delete_tokens.push_back(stored.token().id());
        return true;
      });
  tokens->erase(end, tokens->end());
  return batch.empty() ? absl::OkStatus() : store->Commit(batch);
}

bool HasAdmin(const std::vector<v1::StoredToken>& tokens, absl::Time now) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const v1::StoredToken& stored) {
                       return stored.token().role() == v1::ADMIN &&
                              IsLive(stored.token(), now);
                     });
}

// Makes the token of the first admin. The file comes first: a token whose
// secret nobody has would be in the way of another one.
absl::StatusOr<v1::StoredToken> MakeAdmin(const std::string& file, Store* store,
                                          absl::Time now) {
  ASSIGN_OR_RETURN(const std::string secret, NewSecret());
  RETURN_IF_ERROR(WriteFileAtomically(file, secret + "\n", 0600));
  v1::StoredToken stored;
  stored.set_secret_sha256(DigestOf(secret));
  v1::Token& token = *stored.mutable_token();
  token.set_id(store->AllocateId(IdKind::kToken));
  token.set_name("first-admin");
  token.set_role(v1::ADMIN);
  *token.mutable_create_time() =
      TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(now));
  RETURN_IF_ERROR(store->Commit({.upsert_tokens = {stored}}));
  return stored;
}

// Warns if the system does not tell which user calls.
void WarnWithoutUsers() {
  const absl::Status users = CheckPeerUsers();
  if (users.ok()) return;
  spdlog::warn("only the socket is open without a token reason=\"{}\"",
               std::string(users.message()));
}

const char* RecordLabel(audit::Fate fate) {
  switch (fate) {
    case audit::Fate::kWritten:
      return "written";
    case audit::Fate::kLost:
      return "lost";
    case audit::Fate::kCounted:
      return "counted";
  }
  return "";
}

// Lets the audit log count its records. All series exist from the start.
void CountRecords(Metrics* metrics, audit::LogOptions* options) {
  for (const audit::Fate fate :
       {audit::Fate::kWritten, audit::Fate::kLost, audit::Fate::kCounted}) {
    metrics->Count(CounterName::kAuditRecords, {RecordLabel(fate)}, 0);
  }
  metrics->Set(GaugeName::kQueueLimit, {kAuditQueue},
               static_cast<double>(options->queue_limit));
  options->count = [metrics](audit::Fate fate, uint64_t records) {
    metrics->Count(CounterName::kAuditRecords, {RecordLabel(fate)},
                   static_cast<double>(records));
  };
  options->waiting = [set = metrics->Setter(GaugeName::kQueueDepth,
                                            {kAuditQueue})](size_t records) {
    set(static_cast<double>(records));
  };
}

}  // namespace

absl::StatusOr<ClaimedSocket> ClaimSocket(const std::string& socket,
                                          const std::string& state_dir) {
  ClaimedSocket claimed;
  if (socket == "none") return claimed;
  if (socket == "auto") {
    const std::string path = absl::StrCat(state_dir, "/", kSocketFile);
    const absl::Status usable = CheckSocket(path);
    if (usable.ok()) {
      claimed.path = path;
    } else {
      spdlog::warn(
          "there is no socket for callers on this machine error=\"{}\"",
          std::string(usable.message()));
    }
    return claimed;
  }
  RETURN_IF_ERROR(CheckLength(socket));
  ASSIGN_OR_RETURN(claimed.lock, LockSocket(socket));
  RETURN_IF_ERROR(CheckSocket(socket));
  claimed.path = socket;
  return claimed;
}

absl::Status CheckTls(const tls::TlsFiles& files, absl::Time now) {
  if (!files.on()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const tls::ServerPem pem, tls::ReadServerFiles(files, now));
  spdlog::info(
      "TLS is on certificate={} expires={} client_certificates={}",
      files.certificate,
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", tls::ExpiryOf(pem.own.certificate),
                       absl::UTCTimeZone()),
      pem.client_authorities.empty() ? "no" : "required");
  return absl::OkStatus();
}

FreeCallers FreeCallersOf(const Config& config) {
  if (config.auth == "none") return FreeCallers::kAll;
  if (config.auth == "tokens") return FreeCallers::kNone;
  return config.tls.client_ca.empty() ? FreeCallers::kOwnUsers
                                      : FreeCallers::kCertificates;
}

absl::StatusOr<std::unique_ptr<AccessGate>> OpenGate(
    FreeCallers free, const std::string& state_dir, Store* store,
    std::function<absl::Time()> now) {
  const absl::Time start = now();
  auto gate = std::make_unique<AccessGate>(free, std::move(now));
  if (!gate->checks_calls()) return gate;
  if (free == FreeCallers::kOwnUsers) WarnWithoutUsers();
  ASSIGN_OR_RETURN(std::vector<v1::StoredToken> tokens, store->LoadTokens());
  RETURN_IF_ERROR(ForgetOld(store, start, &tokens));
  const std::string file = absl::StrCat(state_dir, "/", kAdminTokenFile);
  if (free != FreeCallers::kNone) {
    // Free callers can make tokens.
  } else if (HasAdmin(tokens, start)) {
    spdlog::info("each call needs a token tokens={}", tokens.size());
  } else {
    ASSIGN_OR_RETURN(v1::StoredToken admin, MakeAdmin(file, store, start));
    tokens.push_back(std::move(admin));
    spdlog::info(
        "each call needs a token; one of an admin was made file={} "
        "use=\"GPUPOOL_TOKEN_FILE={} gpupool tokens list\"",
        file, file);
  }
  for (const v1::StoredToken& stored : tokens) gate->tokens().Put(stored);
  return gate;
}

absl::Status KeepAuditLog(const Config& config, const std::string& state_dir,
                          Metrics* metrics, AccessGate* gate) {
  if (config.audit != "on") return absl::OkStatus();
  audit::LogOptions options;
  options.files = {.folder = absl::StrCat(state_dir, "/", audit::kFolderName),
                   .file_bytes = config.audit_file_bytes,
                   .files = config.audit_files};
  options.now = [gate] { return gate->now(); };
  options.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  CountRecords(metrics, &options);
  ASSIGN_OR_RETURN(auto log, audit::AuditLog::Open(std::move(options)));
  gate->KeepRecords(std::move(log));
  return absl::OkStatus();
}

std::shared_ptr<SharedRegions> OpenRegions(const std::string& shared_memory,
                                           AccessGate* gate) {
  if (shared_memory != "on") return nullptr;
  gate->AskUsers();
  const absl::Status users = CheckPeerUsers();
  if (users.ok()) {
    spdlog::info("clients on this machine may use shared memory");
  } else {
    spdlog::warn("only the socket can use shared memory reason=\"{}\"",
                 std::string(users.message()));
  }
  return std::make_shared<SharedRegions>(gate);
}

void NoteTokenUses(AccessGate* gate, const ControlContext* control) {
  gate->tokens().OnUse([control](uint64_t id, absl::Time now) {
    NoteTokenUse(*control, id, now);
  });
}

}  // namespace gpupool::server
