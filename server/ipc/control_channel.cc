#include "server/ipc/control_channel.h"

#include <fcntl.h>
#include <google/protobuf/message_lite.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/ipc/unix_address.h"

namespace gpupool::server {
namespace {

constexpr size_t kPrefixBytes = 4;
constexpr size_t kReadBytes = 64 << 10;
// Capacity that an empty receive buffer may keep.
constexpr size_t kMaxIdleBytes = 1 << 20;

// Returns the length as four bytes, the lowest first.
std::string Prefix(uint32_t length) {
  std::string prefix(kPrefixBytes, '\0');
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    prefix[i] = static_cast<char>(length >> (8 * i));
  }
  return prefix;
}

// Puts `descriptors` into the control message of `header`. `control` is its
// memory.
void AttachDescriptors(absl::Span<const UniqueFd> descriptors,
                       absl::Span<char> control, msghdr* header) {
  const size_t bytes = descriptors.size() * sizeof(int);
  header->msg_control = control.data();
  header->msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* message = CMSG_FIRSTHDR(header);
  message->cmsg_level = SOL_SOCKET;
  message->cmsg_type = SCM_RIGHTS;
  message->cmsg_len = CMSG_LEN(bytes);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const int fd = descriptors[i].get();
    std::memcpy(CMSG_DATA(message) + i * sizeof(int), &fd, sizeof(int));
  }
}

// Returns copies that the channel owns until they are sent: the caller may
// close its own at once. Never below 3, the standard streams.
absl::StatusOr<std::vector<UniqueFd>> Duplicate(
    absl::Span<const int> descriptors) {
  std::vector<UniqueFd> copies;
  for (const int fd : descriptors) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!copies.back().valid()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot duplicate descriptor ", fd, " (errno ", errno, ")"));
    }
  }
  return copies;
}

}  // namespace

absl::StatusOr<ControlChannel> ControlChannel::Connect(
    const std::string& path) {
  ASSIGN_OR_RETURN(UnixAddress address, UnixAddress::For(path));
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    return absl::ResourceExhaustedError("cannot create a socket");
  }
  if (::connect(socket.get(), address.get(), address.length()) != 0) {
    // On a Unix socket, EAGAIN means that the listener's backlog is full.
    return errno == EAGAIN
               ? absl::UnavailableError("the worker does not accept")
               : absl::NotFoundError(absl::StrCat("nothing listens at ", path,
                                                  " (errno ", errno, ")"));
  }
  return FromSocket(std::move(socket));
}

absl::StatusOr<ControlChannel> ControlChannel::FromSocket(UniqueFd socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) !=
          0 ||
      peer.uid != ::geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the other end of the control socket belongs to user ",
                     peer.uid, ", not to user ", ::geteuid()));
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  return ControlChannel(std::move(socket), peer.pid);
}

absl::Status ControlChannel::Send(const google::protobuf::MessageLite& message,
                                  absl::Span<const int> descriptors) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes == 0 || bytes > kMaxFrameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a control message has 1 to ", kMaxFrameBytes,
                     " bytes; this one has ", bytes));
  }
  if (unsent_bytes_ + bytes > kMaxUnsentBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(unsent_bytes_, " bytes wait for the other process, limit ",
                     kMaxUnsentBytes));
  }
  Unsent unsent;
  ASSIGN_OR_RETURN(unsent.descriptors, Duplicate(descriptors));
  unsent.bytes = Prefix(static_cast<uint32_t>(bytes));
  message.AppendToString(&unsent.bytes);
  unsent_bytes_ += unsent.bytes.size();
  unsent_.push_back(std::move(unsent));
  return Flush();
}

absl::Status ControlChannel::Flush() {
  while (!unsent_.empty()) {
    Unsent& first = unsent_.front();
    iovec part = {first.bytes.data() + sent_of_first_,
                  first.bytes.size() - sent_of_first_};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr)
        std::array<char, CMSG_SPACE(kMaxPendingDescriptors * sizeof(int))>
            control = {};
    if (!first.descriptors.empty()) {
      AttachDescriptors(first.descriptors, absl::MakeSpan(control), &header);
    }
    const ssize_t sent =
        // MSG_NOSIGNAL: a peer that has gone must not end this process by
        // SIGPIPE.
        ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) {
      return absl::UnavailableError(
          absl::StrCat("the control socket is broken (errno ", errno, ")"));
    }
    // They travel with the first byte, so drop them even when only a part was
    // sent.
    first.descriptors.clear();
    sent_of_first_ += static_cast<size_t>(sent);
    unsent_bytes_ -= static_cast<uint64_t>(sent);
    if (sent_of_first_ == first.bytes.size()) {
      unsent_.pop_front();
      sent_of_first_ = 0;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ControlChannel::Receive(
    google::protobuf::MessageLite* message) {
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<uint32_t> length, FrameLength());
    const size_t waiting = received_.size() - consumed_;
    if (length.has_value() && waiting >= kPrefixBytes + *length) {
      const char* frame = received_.data() + consumed_ + kPrefixBytes;
      const bool parsed =
          message->ParseFromArray(frame, static_cast<int>(*length));
      // A frame that does not parse is consumed, too. The caller drops the
      // connection.
      consumed_ += kPrefixBytes + *length;
      if (!parsed) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a control frame of ", *length, " bytes holds no valid message"));
      }
      return true;
    }
    ASSIGN_OR_RETURN(const bool more, ReadSome());
    if (!more) return false;
  }
}

// Returns the length of the next frame, or nothing before its prefix is
// complete. Checked before any memory is reserved for it.
absl::StatusOr<std::optional<uint32_t>> ControlChannel::FrameLength() const {
  if (received_.size() - consumed_ < kPrefixBytes) return std::nullopt;
  uint32_t length = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    length |= uint32_t{static_cast<uint8_t>(received_[consumed_ + i])}
              << (8 * i);
  }
  if (length == 0 || length > kMaxFrameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a control frame claims ", length, " bytes; 1 to ",
                     kMaxFrameBytes, " are allowed"));
  }
  return length;
}

absl::StatusOr<bool> ControlChannel::ReadSome() {
  // Frames are taken by an offset, and the bytes move once for each read.
  received_.erase(0, std::exchange(consumed_, 0));
  if (received_.empty() && received_.capacity() > kMaxIdleBytes) {
    received_.shrink_to_fit();  // give back the memory of a large message
  }
  const size_t before = received_.size();
  received_.resize(before + kReadBytes);
  iovec part = {received_.data() + before, kReadBytes};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(kMaxPendingDescriptors * sizeof(int))>
          control = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  // Kept, because resize may change errno.
  const int error = errno;
  received_.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return false;
  if (count <= 0) {
    return absl::UnavailableError(
        count == 0
            ? "the other process has closed the control socket"
            : absl::StrCat("the control socket is broken (errno ", error, ")"));
  }
  RETURN_IF_ERROR(KeepDescriptors(&header));
  return true;
}

// Takes over all received descriptors, even surplus ones: those not owned by
// anybody would leak.
absl::Status ControlChannel::KeepDescriptors(void* message_header) {
  auto* const header = static_cast<msghdr*>(message_header);
  for (cmsghdr* message = CMSG_FIRSTHDR(header); message != nullptr;
       message = CMSG_NXTHDR(header, message)) {
    if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (message->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(message) + i * sizeof(int), sizeof(int));
      descriptors_.emplace_back(fd);
    }
  }
  if ((header->msg_flags & MSG_CTRUNC) != 0 ||
      descriptors_.size() > kMaxPendingDescriptors) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxPendingDescriptors,
                     " descriptors came with a control message"));
  }
  return absl::OkStatus();
}

std::vector<UniqueFd> ControlChannel::TakeDescriptors() {
  return std::exchange(descriptors_, {});
}

absl::StatusOr<ControlListener> ControlListener::Listen(
    const std::string& path) {
  ASSIGN_OR_RETURN(UnixAddress address, UnixAddress::For(path));
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    return absl::ResourceExhaustedError("cannot create a socket");
  }
  // A file that a dead worker left would make bind fail. No live worker listens
  // there, because the caller holds the device's lease.
  ::unlink(path.c_str());
  // Set on the socket before bind, so that nobody else can connect in between.
  ::fchmod(socket.get(), 0600);
  // There is one daemon. More connections are attempts to replace it.
  constexpr int kBacklog = 8;
  if (::bind(socket.get(), address.get(), address.length()) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", path, " (errno ", errno, ")"));
  }
  return ControlListener(std::move(socket));
}

absl::StatusOr<ControlChannel> ControlListener::Accept() {
  UniqueFd socket(
      ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return absl::NotFoundError("no connection waits");
  return ControlChannel::FromSocket(std::move(socket));
}

}  // namespace gpupool::server
