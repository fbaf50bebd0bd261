#include "engine/data/tokens/tokenizer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/text_limits.h"
#include "engine/base/utf8.h"

namespace gpupool::engine {
namespace {

using Clock = std::chrono::steady_clock;

// A request takes a second; a machine may be busy.
constexpr std::chrono::seconds kMostOfAnAnswer{120};
// The sandbox of a worker forbids it to kill other processes. The program then
// ends by itself when the socket is shut down, and latest with this thread.
constexpr std::chrono::seconds kMostOfAnEnd{10};
constexpr std::chrono::milliseconds kBetweenLooks{5};
// The daemon and the program know the same limit.
static_assert(kMaxTokenizerFileBytes == kMaxTokenizerBytes);
constexpr size_t kMaxNamedTokens = 1000;
constexpr size_t kMaxErrorBytes = 4096;

std::string ProgramBesideThis() {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "gpupool-tokenizer").string();
}

// Starts the program with the socket as standard input and output. Returns the
// system's error, 0 if there is none.
int Spawn(const std::string& program, int socket, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  // The library writes texts of its own.
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = program;
  std::string verb = "encode";
  std::array<char*, 3> arguments = {name.data(), verb.data(), nullptr};
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, &attributes,
                                  arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

// Returns what the operator can do when the program does not start.
const char* RemedyOf(int error) {
  if (error != EPERM) {
    return "install gpupool-tokenizer beside gpupool-worker and restart the "
           "server";
  }
  return "the sandbox of workers lets it start only on a kernel with Landlock: "
         "use Linux 5.19 or later, in a container with a seccomp profile that "
         "allows Landlock, or start the server with `--sandbox off`";
}

// Waits until the socket is ready for `events`. Returns false at the deadline.
bool Await(int socket, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd watched = {socket, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

enum class Transfer : uint8_t { kDone, kClosed, kTooSlow };

bool Again() { return errno == EINTR || errno == EAGAIN; }

Transfer SendAll(int socket, std::string_view bytes,
                 Clock::time_point deadline) {
  while (!bytes.empty()) {
    if (!Await(socket, POLLOUT, deadline)) return Transfer::kTooSlow;
    const ssize_t count =
        ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && Again()) continue;
    if (count <= 0) return Transfer::kClosed;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return Transfer::kDone;
}

Transfer ReceiveAll(int socket, absl::Span<char> bytes,
                    Clock::time_point deadline) {
  while (!bytes.empty()) {
    if (!Await(socket, POLLIN, deadline)) return Transfer::kTooSlow;
    const ssize_t count =
        ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && Again()) continue;
    if (count <= 0) return Transfer::kClosed;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return Transfer::kDone;
}

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

size_t MostBytes(TokenizerMessage answer) {
  switch (answer) {
    case TokenizerMessage::kIds:
      return kMaxTokenizerIds * sizeof(uint32_t);
    case TokenizerMessage::kNamed:
      return kMaxNamedTokens * (kMaxTokenizerPieceBytes + 1);
    case TokenizerMessage::kModel:
      return sizeof(TokenizerModel);
    default:
      return kMaxErrorBytes;
  }
}

// Returns the text with a question mark in place of each byte that is not part
// of a UTF-8 character.
std::string AsUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t bytes = static_cast<unsigned char>(text.front()) < 0x80
                             ? 1
                             : Utf8CharacterBytes(text);
    if (bytes == 0) {
      valid += '?';
      text.remove_prefix(1);
    } else {
      valid.append(text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
  }
  return valid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerProcess>> TokenizerProcess::Start(
    std::string program, std::string_view model) {
  if (model.size() > kMaxTokenizerBytes) {
    return Refuse("the tokenizer has ", model.size(), " bytes, the limit is ",
                  kMaxTokenizerBytes);
  }
  if (program.empty()) program = ProgramBesideThis();
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::UnavailableError("the system cannot create a socket");
  }
  pid_t pid = 0;
  const int error = Spawn(program, ends[1], pid);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return absl::UnavailableError(absl::StrCat(
        "cannot start ", program, ": ", std::generic_category().message(error),
        "; ", RemedyOf(error)));
  }
  std::unique_ptr<TokenizerProcess> process(new TokenizerProcess(pid, ends[0]));
  RETURN_IF_ERROR(process->Load(model));
  return process;
}

TokenizerProcess::~TokenizerProcess() {
  End();
  ::close(socket_);
}

int TokenizerProcess::End() {
  if (pid_ <= 0) return 0;
  ::shutdown(socket_, SHUT_RDWR);
  const bool killed = ::kill(pid_, SIGKILL) == 0;
  const int options = killed ? 0 : WNOHANG;
  const Clock::time_point deadline = Clock::now() + kMostOfAnEnd;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(pid_, &status, options);
    if (ended > 0 || (ended < 0 && errno != EINTR)) break;
    if (ended == 0 && Clock::now() >= deadline) break;
    if (ended == 0) std::this_thread::sleep_for(kBetweenLooks);
  }
  pid_ = 0;
  return status;
}

absl::Status TokenizerProcess::Load(std::string_view model) {
  ASSIGN_OR_RETURN(const std::string answer, Ask(TokenizerMessage::kLoad, model,
                                                 TokenizerMessage::kModel));
  if (answer.size() != sizeof(facts_)) return Lost(false);
  std::memcpy(&facts_, answer.data(), sizeof(facts_));
  const auto kind = static_cast<uint32_t>(facts_.kind);
  if (facts_.vocabulary < 1 || facts_.vocabulary > kMaxTokenizerPieces ||
      kind < 1 || kind > static_cast<uint32_t>(TokenizerKind::kCharacter)) {
    return Lost(false);
  }
  return absl::OkStatus();
}

absl::Status TokenizerProcess::Encode(std::string_view lines,
                                      std::vector<uint32_t>& ids) {
  ASSIGN_OR_RETURN(
      const std::string answer,
      Ask(TokenizerMessage::kEncode, lines, TokenizerMessage::kIds));
  ids.resize(answer.size() / sizeof(uint32_t));
  if (ids.empty()) return absl::OkStatus();
  std::memcpy(ids.data(), answer.data(), ids.size() * sizeof(uint32_t));
  const bool known = std::all_of(ids.begin(), ids.end(), [this](uint32_t id) {
    return id < facts_.vocabulary;
  });
  return known ? absl::OkStatus() : Lost(false);
}

absl::StatusOr<std::vector<std::string>> TokenizerProcess::Names(
    absl::Span<const uint32_t> ids) {
  ids = ids.subspan(0, kMaxNamedTokens);
  ASSIGN_OR_RETURN(const std::string answer,
                   Ask(TokenizerMessage::kNames,
                       {reinterpret_cast<const char*>(ids.data()),
                        ids.size() * sizeof(uint32_t)},
                       TokenizerMessage::kNamed));
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(answer, '\0')) {
    if (names.size() == ids.size()) break;
    names.push_back(AsUtf8({name.data(), name.size()}));
  }
  if (names.size() != ids.size()) return Lost(false);
  return names;
}

absl::StatusOr<std::string> TokenizerProcess::Ask(TokenizerMessage request,
                                                  std::string_view payload,
                                                  TokenizerMessage answer) {
  const Clock::time_point deadline = Clock::now() + kMostOfAnAnswer;
  const TokenizerHeader sent = {request, static_cast<uint32_t>(payload.size())};
  Transfer done = SendAll(socket_, BytesOf(sent), deadline);
  if (done == Transfer::kDone) done = SendAll(socket_, payload, deadline);
  // The program may have told an error before it closed its end.
  if (done == Transfer::kTooSlow) return Lost(true);
  TokenizerHeader header;
  done = ReceiveAll(socket_, {reinterpret_cast<char*>(&header), sizeof(header)},
                    deadline);
  if (done != Transfer::kDone) return Lost(done == Transfer::kTooSlow);
  const bool refused = header.kind == TokenizerMessage::kError;
  if ((!refused && header.kind != answer) ||
      header.bytes > MostBytes(header.kind)) {
    return Lost(false);
  }
  std::string text(header.bytes, '\0');
  done = ReceiveAll(socket_, absl::MakeSpan(text), deadline);
  if (done != Transfer::kDone) return Lost(done == Transfer::kTooSlow);
  if (refused) return Refuse("the tokenizer ", AsUtf8(text));
  return text;
}

absl::Status TokenizerProcess::Lost(bool too_slow) {
  if (too_slow) {
    return Refuse("the tokenizer took more than ", kMostOfAnAnswer.count(),
                  " s for a part of the text; train another model, or check "
                  "the file with spm_encode");
  }
  const int status = End();
  return Refuse("the tokenizer ended the program that reads it",
                WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL
                    ? absl::StrCat(" (signal ", WTERMSIG(status), ")")
                    : std::string(),
                "; the file is damaged, or needs too much memory");
}

}  // namespace gpupool::engine
