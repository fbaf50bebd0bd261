// The control path between the daemon and a worker: a Unix stream socket that
// carries frames and file descriptors.
//
//   stream = frame*
//   frame  = length:32 (little endian, 1 .. 64 MiB) message:length bytes
//
// The peer must be a process of the same user (SO_PEERCRED). All calls are
// non-blocking; the owner polls fd(). Thread-safety: one thread. Owns the
// socket, and the received descriptors until they are taken.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/ipc/unique_fd.h"

namespace google::protobuf {
class MessageLite;
}

namespace gpupool::server {

inline constexpr uint32_t kMaxFrameBytes = 64u << 20;
inline constexpr uint64_t kMaxUnsentBytes = uint64_t{128} << 20;
inline constexpr size_t kMaxPendingDescriptors = 8;

class ControlChannel {
 public:
  // Connects to the socket at `path` (of any length). NotFound when nothing
  // listens there, PermissionDenied when the listener is another user's.
  static absl::StatusOr<ControlChannel> Connect(const std::string& path);

  // Takes a connected socket. PermissionDenied as for Connect.
  static absl::StatusOr<ControlChannel> FromSocket(UniqueFd socket);

  // Queues one message, and copies of `descriptors` to travel with its first
  // byte, then sends what the socket takes. InvalidArgument above
  // kMaxFrameBytes; ResourceExhausted when more than kMaxUnsentBytes would
  // wait; Unavailable when the peer is gone.
  absl::Status Send(const google::protobuf::MessageLite& message,
                    absl::Span<const int> descriptors = {});

  // Sends more. Call when poll reports POLLOUT.
  absl::Status Flush();
  bool wants_write() const { return !unsent_.empty(); }

  // Parses the next whole message into `message` and returns true, or returns
  // false when the socket has no more for now. Errors, after which the channel
  // must be closed:
  //   * Unavailable: the peer has closed
  //   * InvalidArgument: the stream is broken (length out of range, bytes that
  //     do not parse, too many descriptors)
  absl::StatusOr<bool> Receive(google::protobuf::MessageLite* message);

  // Returns the descriptors that have arrived since the last call, in order.
  std::vector<UniqueFd> TakeDescriptors();

  int fd() const { return socket_.get(); }
  pid_t peer_pid() const { return peer_pid_; }

 private:
  struct Unsent {
    std::string bytes;
    std::vector<UniqueFd> descriptors;
  };

  ControlChannel(UniqueFd socket, pid_t peer_pid)
      : socket_(std::move(socket)), peer_pid_(peer_pid) {}
  absl::StatusOr<bool> ReadSome();
  absl::Status KeepDescriptors(void* message_header);
  absl::StatusOr<std::optional<uint32_t>> FrameLength() const;

  UniqueFd socket_;
  pid_t peer_pid_ = 0;
  std::deque<Unsent> unsent_;
  uint64_t unsent_bytes_ = 0;
  size_t sent_of_first_ = 0;
  std::string received_;
  size_t consumed_ = 0;
  std::vector<UniqueFd> descriptors_;
};

// The worker's end of the socket: accepts daemons.
class ControlListener {
 public:
  // Listens at `path` with mode 0600. Replaces any file there.
  static absl::StatusOr<ControlListener> Listen(const std::string& path);

  // Returns the next waiting connection. NotFound when there is none;
  // PermissionDenied when it was another user's, and has been closed.
  absl::StatusOr<ControlChannel> Accept();

  int fd() const { return socket_.get(); }

 private:
  explicit ControlListener(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace gpupool::server
